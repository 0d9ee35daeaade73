"""estream configure: the group size, queue depth and banks that a memory budget is best spent on, and why."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from estream_lab.cli.measuring import unprompted
from estream_lab.cli.options import budget, kept_files
from estream_lab.streaming import Store
from estream_lab.tuning.calibrate import calibrate
from estream_lab.tuning.configure import Selection, Weighed, select
from estream_lab.tuning.flow_shop import Distances, distances
from estream_lab.tuning.models import MODELS
from estream_lab.tuning.pipeline_file import read_pipeline, write_pipeline
from estream_lab.tuning.profile import Profile
from estream_lab.tuning.profile_file import check_profile, load_profile

MIB = 2**20


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command."""
    parser = commands.add_parser("configure", help="choose group size, queue depth and banks for a memory budget")
    parser.add_argument("store", type=Path, metavar="STORE", help="a NAME.estream folder; it keeps the choice")
    parser.add_argument(
        "--memory-budget",
        type=budget,
        required=True,
        metavar="SIZE",
        help="most memory that a prefill may have resident, e.g. 900MiB; 'available': what this computer has now",
    )
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="made by estream profile (default: that of the store's last configuration here, else measured now)",
    )
    parser.add_argument(
        "--model",
        choices=list(MODELS),
        default="literal",
        help="the paper's recurrence with its rule for the queue depth (literal, the default), or reads that share "
        "the storage with as many as are under way, banks that cost time, and a depth that is searched (shared)",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    store = Store(options.store)
    profile, origin = _profile(options, store)
    selection = select(profile, options.memory_budget, options.model)
    path = write_pipeline(store, selection, profile)
    if options.json:
        more = {
            "model": options.model,
            "profile": origin,
            "pipeline": str(path),
            "flow_shop": asdict(_distances(selection, profile)),
        }
        print(json.dumps(selection.to_json() | more))
    else:
        print(explanation(selection, profile, origin))
        print(f"written         {path}")
    return 0


def kept(options: argparse.Namespace) -> str:
    """What a stopped run leaves."""
    return kept_files(options)


def _profile(options: argparse.Namespace, store: Store) -> tuple[Profile, str]:
    """What to choose by, and where it comes from; a file that is in the way of the choice is told before it is made."""
    before = read_pipeline(store)
    if options.profile is not None:
        return load_profile(options.profile, store), str(options.profile)
    if before is not None:
        profile = before.profile()
        check_profile(profile, store, str(before.path))
        return profile, str(before.path)
    tokens, prompt = unprompted(store)
    return calibrate(store, tokens, prompt=prompt, progress=not options.json), "measured now"


def explanation(selection: Selection, profile: Profile, origin: str) -> str:
    """The choice and its reasons for people, a line each."""
    chosen, measured = selection.chosen, profile.origin
    limit = f", reads limited to {measured.read_bandwidth / 1e6:g} MB/s (declared)" if measured.read_bandwidth else ""
    lines = [
        f"profile         {origin}: {measured.tokens} tokens ({measured.prompt}), measured on {measured.machine}, "
        f"{measured.date}{limit}",
        f"budget          {selection.budget_bytes / MIB:.1f} MiB: {selection.other_bytes / MIB:.1f} outside the arena",
        f"chosen          G={chosen.group_size} Q={chosen.queue_depth} B={chosen.banks}: "
        f"{chosen.predicted_seconds:.4f} s predicted, arena {chosen.arena_bytes} bytes, "
        f"{chosen.memory_bytes / MIB:.1f} MiB in all, selected in {1e3 * selection.selection_seconds:.3f} ms",
        f"margin          {_margin(selection)}",
        f"from optimal    {_from_optimal(_distances(selection, profile))}",
    ]
    return "\n".join([*lines, *map(_line, selection.candidates)])


def _margin(selection: Selection) -> str:
    margin, noise, second = selection.margin_seconds, selection.margin_noise_seconds, selection.runner_up
    if second is None or margin is None:
        return "no other group size fits"
    text = f"{1e3 * margin:.3f} ms before G={second.group_size} B={second.banks}"
    if noise is None:
        return f"{text}; one request of each can't tell noise: profile with more --rounds"
    verdict = "more than" if margin > noise else "within"
    return f"{text}, {verdict} the noise of {1e3 * noise:.3f} ms"


def _distances(selection: Selection, profile: Profile) -> Distances:
    """Of the choice."""
    chosen = selection.chosen
    return distances(profile.grid(chosen.group_size), chosen.banks, chosen.queue_depth)


def _from_optimal(found: Distances) -> str:
    """The layers alone, without what lies outside of them."""
    offline = found.by_order_ns["offline"]
    orders = ", ".join(f"{name} {100 * (time / offline - 1):+.1f} %" for name, time in found.by_order_ns.items())
    return (
        f"layers {offline / 1e9:.4f} s, at best {found.bound_ns / 1e9:.4f} s in any order with any banks "
        f"({100 * (offline / found.bound_ns - 1):.1f} % above); orders: {orders}"
    )


def _line(each: Weighed) -> str:
    """One group size."""
    if each.predicted_seconds is None:
        return f"G={each.group_size:<3d}           no bank fits: the least that works is {each.least_bytes} bytes"
    noise = f" +- {each.noise_seconds:.4f}" if each.noise_seconds is not None else ""
    bound = {
        "memory": "memory binds",
        "groups": f"all {each.groups} groups of a layer",
        "service times": "more banks gain nothing",
    }[each.binds]
    return (
        f"G={each.group_size:<3d}           B_max {each.bank_limit}, best B={each.banks} Q={each.queue_depth}: "
        f"{each.predicted_seconds:.4f}{noise} s, {each.memory_bytes / MIB:.1f} MiB, {bound}"
    )
