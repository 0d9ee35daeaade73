"""estream profile: service times of every candidate group size on this computer, for `estream configure`."""

import argparse
import json
from pathlib import Path
from typing import Any

from estream_lab.cli.measuring import add_measuring, measured_prompt
from estream_lab.cli.options import kept_files
from estream_lab.cli.results import check_results
from estream_lab.streaming import Store
from estream_lab.tuning.calibrate import calibrate
from estream_lab.tuning.profile import Profile
from estream_lab.tuning.profile_file import save_profile

ROUNDS = 2


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command."""
    parser = commands.add_parser("profile", help="measure the service times that configure chooses by")
    add_measuring(parser, ROUNDS)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the profile, a JSON file")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    check_results({"--output": options.output}, {"the store": options.store, "--prompt-file": options.prompt_file})
    store = Store(options.store)
    tokens, prompt = measured_prompt(options, store)
    profile = calibrate(
        store,
        tokens,
        prompt=prompt,
        sizes=options.group_sizes,
        depths=options.queue_depths,
        rounds=options.rounds,
        threads=options.threads,
        read_bandwidth=options.read_bandwidth,
        progress=not options.json,
    )
    save_profile(profile, options.output)
    print(json.dumps(figures(profile)) if options.json else summary(profile))
    if not options.json:
        print(f"written         {options.output}")
    return 0


def kept(options: argparse.Namespace) -> str:
    """What a stopped run leaves."""
    return kept_files(options, options.output)


def figures(profile: Profile) -> dict[str, Any]:
    """What was measured, pooled; times in seconds."""
    origin, service = profile.origin, profile.service
    rows = []
    for size in profile.group_sizes:
        grid = profile.grid(size).needed
        rows.append(
            {
                "group_size": size,
                "bank_bytes": size * profile.slot_bytes,
                "bandwidths": {str(depth): profile.bandwidth(size, depth) for depth in profile.queue_depths},
                "read_seconds": {str(i + 1): float(sum(reads)) / 1e9 for i, reads in enumerate(grid.reads)},
                "expert_seconds": float(grid.runs.sum()) / 1e9,
                "scheduled_groups": len(grid.runs),
            }
        )
    return {
        "machine": origin.machine,
        "kind": "measured",
        "model": origin.model,
        "store_checksum": origin.store_checksum,
        "date": origin.date,
        "prompt": origin.prompt,
        "tokens": origin.tokens,
        "threads": origin.threads,
        "read_bandwidth": origin.read_bandwidth,
        "direct_io": origin.direct_io,
        "requests": len(profile.runs),
        "other_bytes": profile.other_bytes,
        "measured_other_bytes": profile.measured_other_bytes,
        "non_expert_seconds": float(profile.grid(profile.group_sizes[0]).non_expert.sum()) / 1e9,
        "outside_seconds": profile.outside_ns() / 1e9,
        "service_median_error": service.median_error,
        "service_worst_error": service.worst_error,
        "group_sizes": rows,
    }


def summary(profile: Profile) -> str:
    """The same for people."""
    found, service = figures(profile), profile.service
    limit = f", reads limited to {found['read_bandwidth'] / 1e6:g} MB/s (declared)" if found["read_bandwidth"] else ""
    direct = "direct I/O" if found["direct_io"] else "buffered reads"
    lines = [
        f"profile         {found['model'] or 'the store'}, {found['tokens']} tokens ({found['prompt']}), "
        f"{found['requests']} requests with {found['threads']} threads, measured on {found['machine']}",
        f"reads           {direct}{limit}",
        f"memory          {found['other_bytes'] / 2**20:.1f} MiB outside the arena "
        f"({found['measured_other_bytes'] / 2**20:.1f} seen)",
        f"a request has   {found['non_expert_seconds']:.4f} s of non-expert work until the routes are known, "
        f"{found['outside_seconds']:.4f} s elsewhere",
        f"service model   {service.fixed_ns / 1e3:.1f} us a group, {service.expert_ns / 1e3:.1f} an expert, "
        f"{service.block_ns / 1e3:.2f} for {service.block} routes; median error "
        f"{100 * service.median_error:.1f} %, worst {100 * service.worst_error:.1f} %",
    ]
    for row in found["group_sizes"]:
        speeds = ", ".join(f"Q={depth} {speed / 1e6:.1f}" for depth, speed in row["bandwidths"].items())
        lines.append(
            f"G={row['group_size']:<3d}           {row['scheduled_groups']} groups, experts "
            f"{row['expert_seconds']:.4f} s, reads in MB/s: {speeds}"
        )
    return "\n".join(lines)
