"""The figures of `estream bench regret` for people."""

from typing import Any

from estream_lab.bench.load import LARGEST
from estream_lab.tuning.gates import MEDIAN_ABOVE_FLOOR, WORST
from estream_lab.tuning.grids import Configuration


def table(found: dict[str, Any]) -> str:
    """What ran, a line for each choice, why some missed, and the verdicts."""
    quick = ", quick: a smaller grid and fewer rounds" if found["quick"] else ""
    lines = [
        f"{found['model'] or 'the store'}, {found['store_bytes'] / 1e6:.1f} MB, {found['tokens']} tokens "
        f"({found['prompt']}), {found['threads']} threads, measured on {found['machine']}{quick}",
        f"two like sweeps of {found['rounds']} rounds each, in turn, and a profile of {found['profile_rounds']}: "
        f"{found['seconds'] / 60:.1f} minutes; of equal requests the faster half counts, which nothing else disturbed",
    ]
    for trial in found["trials"]:
        lines += ["", _heading(trial), *(_choice(regret) for regret in trial["regrets"])]
        for miss in trial["misses"]:
            lines += [_why(miss), *(_account(miss[each]) for each in ("chosen", "fastest"))]
    lines += ["", *(_verdict(each) for each in found["verdicts"])]
    return "\n".join(lines)


def _heading(trial: dict[str, Any]) -> str:
    line = (
        f"reads limited to {trial['read_bandwidth'] / 1e6:.1f} MB/s (declared): {trial['configurations']} "
        f"configurations, {trial['samples']} samples"
    )
    if trial["other_load"] > LARGEST:
        line += f"; other programs took {100 * trial['other_load']:.0f} % of this computer meanwhile"
    return line


def _choice(regret: dict[str, Any]) -> str:
    chosen, fastest = (Configuration(**regret[name]).told for name in ("chosen", "fastest"))
    return (
        f"{regret['model']:7s} {regret['budget']:6s} {regret['budget_bytes'] / 2**20:8.1f} MiB, "
        f"{regret['feasible']:3d} fit: chosen {chosen} {regret['chosen_seconds']:.4f} s, "
        f"fastest {fastest} {regret['fastest_seconds']:.4f} s, regret "
        f"{100 * regret['regret']:.1f} %, noise floor {100 * regret['noise_floor']:.1f} %"
    )


def _why(miss: dict[str, Any]) -> str:
    depth = miss["held_to_depth"]
    held = "" if depth is None else f" (its rule for the queue depth holds it to Q={depth})"
    again = f"measured again, its regret is {100 * miss['regret_again']:.1f} %"
    return f"why {miss['model']} misses{held}; {again}; by profile/trace in seconds:"


def _account(each: dict[str, Any]) -> str:
    parts = ", ".join(f"{part['name']} {part['predicted']:.4f}/{part['traced']:.4f}" for part in each["parts"])
    return (
        f"    {Configuration(**each['configuration']).told} predicted {each['predicted_seconds']:.4f} s, traced "
        f"{each['traced_seconds']:.4f}; {parts}: furthest off with {each['furthest']}"
    )


def _verdict(each: dict[str, Any]) -> str:
    told = {True: "within", False: "ABOVE"}
    floor = f"{100 * each['noise_floor']:.1f} % + {100 * MEDIAN_ABOVE_FLOOR:.0f} %"
    return (
        f"{each['model']:7s} {each['exact']} of {each['choices']} choices are the fastest; median regret "
        f"{100 * each['median']:.1f} %, {told[each['median_within']]} the noise floor's {floor}; worst "
        f"{100 * each['worst']:.1f} %, {told[each['worst_within']]} {100 * WORST:.0f} %"
    )
