"""estream routes: a prompt's routes, or synthetic ones, or those of a file: written out and summarised."""

import argparse
import json
import math
from pathlib import Path

from estream_lab.cli.options import add_engine, add_prompt, kept_files, open_engine, positive, prompt_tokens
from estream_lab.cli.results import check_results
from estream_lab.errors import EStreamError
from estream_lab.routing import Routes, read_routes, skew, synthetic_routes, write_routes


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command."""
    parser = commands.add_parser("routes", help="write and summarise routes: of a prompt, synthetic, or of a file")
    add_engine(parser, required=False)
    add_prompt(parser, required=False)
    parser.add_argument("--synthetic", type=positive, metavar="T", help="draw routes for T tokens instead of a prompt")
    parser.add_argument("--experts", type=positive, metavar="E", default=64, help="with --synthetic (default 64)")
    parser.add_argument("--top-k", type=positive, metavar="K", default=8, help="with --synthetic (default 8)")
    parser.add_argument("--layers", type=positive, metavar="L", default=1, help="with --synthetic (default 1)")
    parser.add_argument(
        "--alpha", type=float, default=3.5, help="skew of --synthetic: smaller is steeper (default 3.5)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of --synthetic (default 0)")
    parser.add_argument("--input", type=Path, metavar="FILE", help="summarise a route file instead")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the routes: .csv or .jsonl")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    check_results(
        {"--output": options.output},
        {"the store": options.store, "--input": options.input, "--prompt-file": options.prompt_file},
    )
    routes, experts, origin = _routes(options)
    if options.output is not None:
        write_routes(options.output, routes)
    rows = {layer: skew(r, experts).to_json() for layer, r in routes.items()}
    if options.json:
        print(json.dumps({"origin": origin, "experts": experts, "layers": rows}))
        return 0
    print(f"{origin} routes, {experts} experts a layer")
    for layer, row in rows.items():
        print(
            f"layer {layer:3d}  {row['routes']:7d} routes  {row['active_experts']:4d} experts active  "
            f"{row['effective_experts']:6.1f} effective  busiest {100 * row['busiest_share']:5.1f} %  "
            f"{100 * row['share_in_filled']:5.1f} % in experts with {row['threshold']} routes or more"
        )
    return 0


def kept(options: argparse.Namespace) -> str:
    """What a stopped run leaves."""
    return kept_files(options, options.output)


def _routes(options: argparse.Namespace) -> tuple[dict[int, Routes], int, str]:
    """Routes by layer, experts a layer, and where they come from."""
    wanted = [options.store is not None, options.synthetic is not None, options.input is not None]
    if sum(wanted) != 1:
        raise EStreamError("give a store with a prompt, or --synthetic T, or --input FILE")
    if options.input is not None:
        routes = read_routes(options.input)
        if not routes:
            raise EStreamError(f"{options.input} holds no routes: give the file of a run")
        most = max((int(r.expert.max()) for r in routes.values() if len(r)), default=0)
        return routes, most + 1, f"{options.input}:"
    if options.synthetic is not None:
        if options.top_k > options.experts or not 0 < options.alpha < math.inf or options.seed < 0:
            raise EStreamError("synthetic routes need 1 <= top-k <= experts, a positive alpha and a seed of 0 or more")
        shape = (options.synthetic, options.experts, options.top_k)
        layers = range(options.layers)
        return (
            {layer: synthetic_routes(*shape, alpha=options.alpha, seed=options.seed + layer) for layer in layers},
            options.experts,
            "synthetic",
        )
    if options.prompt is None and options.prompt_file is None and options.tokens is None:
        raise EStreamError("give the prompt whose routes you want: --prompt, --prompt-file or --tokens")
    with open_engine(options) as engine:
        result = engine.prefill(prompt_tokens(options, engine), want="hidden")
        return result.routes, engine.spec.experts, "measured"
