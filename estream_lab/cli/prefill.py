"""estream prefill: one prompt through the model, with figures."""

import argparse
import json
from pathlib import Path

from estream_lab.cli.options import add_engine, add_prompt, configured, kept_files, open_engine, prompt_tokens
from estream_lab.cli.results import check_results
from estream_lab.engine import PrefillResult
from estream_lab.errors import EStreamError
from estream_lab.simulate import load_device
from estream_lab.simulate.tiles import modelled
from estream_lab.trace import KINDS, write_trace


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command."""
    parser = commands.add_parser("prefill", help="push a prompt through the model once")
    add_engine(parser)
    add_prompt(parser)
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help=f"write the trace: {KINDS} (the first for simulate --replay)"
    )
    parser.add_argument(
        "--steps", type=Path, metavar="FILE", help="with exact: write the steps of the tile pipeline, likewise"
    )
    parser.add_argument(
        "--steps-device",
        metavar="NAME",
        help="with --steps: give them the times that a device profile models, such as phone",
    )
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write a report that opens offline")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    check_results(
        {"--trace": options.trace, "--steps": options.steps, "--report": options.report},
        {"the store": options.store, "--prompt-file": options.prompt_file},
    )
    if options.steps_device is not None and options.steps is None:
        raise EStreamError("--steps-device gives steps their times: say with --steps where they go")
    device = None if options.steps_device is None else load_device(options.steps_device)
    if options.report is not None:
        # plotly takes a second to import, and memory: before the engine opens, a memory budget counts it
        from estream_lab.viz.report import write_report
    pipeline = configured(options)
    with open_engine(options) as engine:
        result = engine.prefill(prompt_tokens(options, engine), progress=not options.json)
        steps, sizes = result.steps, (engine.spec.hidden, engine.spec.ffn)
    del engine  # what is written below takes the place of weights and keys
    if steps is not None and device is not None:
        steps = modelled(steps, device, *sizes)
    for trace, path in ((result.trace, options.trace), (steps, options.steps)):
        if trace is not None and path is not None:
            write_trace(trace, path)
    if options.report is not None:
        write_report(result, options.report)
    if options.json:
        print(json.dumps(result.to_json() | {"pipeline": str(pipeline.path) if pipeline else None}))
    else:
        print(summary(result))
        if pipeline:
            print(f"configured      for a budget of {pipeline.budget_bytes} bytes by {pipeline.path}")
        for path in (options.trace, options.steps, options.report):
            if path is not None:
                print(f"written         {path}")
    return 0


def kept(options: argparse.Namespace) -> str:
    """What a stopped run leaves."""
    return kept_files(options, options.trace, options.steps, options.report)


def summary(result: PrefillResult) -> str:
    """The figures of a run for people, a line each."""
    limit = f", reads limited to {result.read_bandwidth / 1e6:g} MB/s (declared)" if result.read_bandwidth else ""
    budget = f" of a budget of {result.memory_budget_bytes}" if result.memory_budget_bytes else ""
    direct = "direct I/O" if result.direct_io else f"buffered reads ({result.fallback_reason})"
    lines = [
        f"lane            {result.lane} ({result.profile}), {result.layout}, dense {result.dense_quant}, "
        f"measured on {result.machine}",
        *_tiles(result),
        f"schedule        {result.schedule}{', carried over' * result.carry_over}: G={result.group_size} "
        f"B={result.banks} Q={result.queue_depth}{limit}",
        f"tokens          {result.tokens} in {result.seconds:.3f} s = {result.tokens_per_second:.1f} tokens/s",
        f"experts active  {result.active_experts} of {result.total_experts}",
        f"arena           {result.arena_bytes} bytes",
        f"peak RSS        {result.peak_rss_bytes} bytes (of the {result.peak_rss_scope}): "
        + ", ".join(f"{part} {size / 2**20:.1f}" for part, size in result.memory.items())
        + " MiB",
        f"planned peak    {result.memory_planned_bytes} bytes{budget}",
        f"bytes read      {result.bytes_read} (needed {result.bytes_needed}, "
        f"speculative {result.bytes_speculative}; kept {result.bytes_kept}), {direct}",
        f"storage idle    {100 * result.storage_idle:.1f} %",
        f"compute idle    {100 * result.npu_idle:.1f} %",
        "next tokens     " + ", ".join(f"{text!r} {logprob:.3f}" for _, text, logprob in result.top),
    ]
    return "\n".join(lines)


def _tiles(result: PrefillResult) -> list[str]:
    """What the exact executor computed with, a line; nothing for others."""
    plan = result.tile_plan
    if not plan:
        return []
    tiles = f"M={plan['tile_rows']} Nf={plan['ffn_panel_columns']} Nd={plan['hidden_panel_columns']}"
    vtcm = f"{plan['vtcm_used_bytes']} of {plan['vtcm_bytes']} bytes of VTCM"
    return [f"tiles           {tiles}, {vtcm}: computed on this computer as the device does"]
