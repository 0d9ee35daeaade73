"""Fit the phone's profile to the seven published OLMoE-1K points, and print how near it comes, as Markdown.

    .venv/bin/python -m tools.fit_phone            # the tables, a few minutes
    .venv/bin/python -m tools.fit_phone --record   # and the fitted numbers into data/devices/phone.json
    .venv/bin/python -m tools.fit_phone --fast     # of the profile as it lies there: no fit, no leave-one-out errors

Five parameters and seven points: a fit, no evidence. Errors of points left out of the fit and of figures of other
lengths and models, for which nothing is fitted, say more. The same run gives the same numbers.
"""

import argparse
from collections.abc import Iterator, Sequence

from estream_lab.kernels.vtcm import plan_tiles
from estream_lab.simulate.device import FOLDER, Device, load_device
from estream_lab.simulate.fit import (
    BUBBLE_BANKS,
    PARAMETERS,
    Point,
    fitted,
    leave_one_out,
    points,
    rounded,
    squared,
    workload,
)  # fmt: skip
from estream_lab.simulate.heldout import HELDOUT
from estream_lab.simulate.literal import literal
from estream_lab.simulate.tiles import invocation_ns
from estream_lab.trace import check_writable
from tools.command import ended

PROFILE = FOLDER / "phone.json"
OTHER_BANKS = 3
"""What the bubble rates' number of banks could as well be."""


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--record", action="store_true", help="write the fitted numbers into the profile")
    chosen.add_argument("--fast", action="store_true", help="take the profile as it is, and leave no point out")
    options = parser.parse_args()
    if options.record:
        check_writable(PROFILE)
    device = load_device(PROFILE)
    if not options.fast:
        device = rounded(fitted(device, workload(), points()))
    for line in [*parameters(device), *agreement(device, fast=options.fast), *elsewhere(device)]:
        print(line, flush=True)
    if not options.fast:
        print(other_banks(device))
    if options.record:
        device.to_json(PROFILE)
        print(f"\nwritten {PROFILE}")


def parameters(device: Device) -> list[str]:
    """The table of parameters."""
    rows = ["| parameter | value | unit | mark |", "|---|---:|---|---|"]
    for place, number in enumerate(device.read_bandwidths, 1):
        rows.append(f"| reads, {place} outstanding | {number.value:.4g} | {number.unit} | {number.mark} |")
    names = [parameter.of for parameter in PARAMETERS if isinstance(parameter.of, str)]
    for name in [*names, "group_overhead", "read_latency"]:
        number = device.numbers[name]
        rows.append(f"| {name} | {number.value:.4g} | {number.unit} | {number.mark} |")
    model, tokens = workload().model, workload().tokens
    non_expert = model.layer_flops(tokens) / device["dense_rate"]
    group = 8 * tokens * model.top_k / model.experts * model.route_flops / device["expert_rate"]
    each = round(tokens * model.top_k / model.experts)
    plan = plan_tiles(model.hidden, model.ffn, each, int(device["vtcm"]))
    tiles = invocation_ns(device, plan, [each] * 8) / 1e6
    return [
        *rows, "",
        f"T^ne {1e3 * non_expert:.2f} ms a layer, X {1e3 * group:.2f} ms a group of average load; by its tiles, at "
        f"assumed rates, X would be {tiles:.2f} ms", "",
    ]  # fmt: skip


def agreement(device: Device, *, fast: bool) -> Iterator[str]:
    """The table of the seven points; distances of bubble rates are points, of latencies per cent."""
    to, asked = points(), workload()
    yield f"Bubble rates at B={BUBBLE_BANKS}, a choice; the Q=1 latency follows from the published decrease.\n"
    yield "| OLMoE 1K, G=8 | published | simulated | distance | tolerance | left out | literal recurrence |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    without: Sequence[float | None] = [None] * len(to) if fast else leave_one_out(device, asked, to)
    for point, left in zip(to, without, strict=True):
        found = point.simulated(device, asked)
        seconds, idle = literal(device, asked, point.settings)
        limit = "2 points" if point.bubble else "3 %"
        yield (
            f"| {point.name} | {_value(point, point.value)} | {_value(point, found)} | {_distance(point, found)} | "
            f"{limit} | {'' if left is None else _distance(point, left)} | "
            f"{_distance(point, idle if point.bubble else seconds)} |"
        )
    yield ""


def elsewhere(device: Device) -> Iterator[str]:
    """The table of held-out figures."""
    yield "Not fitted; n is from notes on the paper, not checked against it; G, B, Q: the fastest simulated.\n"
    yield "| figure | mark | published | simulated | distance | G, B, Q | peak memory |"
    yield "|---|---|---:|---:|---:|---|---:|"
    for each in HELDOUT:
        known = each.published
        value, found = each.simulated(device)
        place = f"{found.settings.group_size}, {found.settings.banks}, {found.settings.queue_depth}"
        yield (
            f"| {known.condition} {known.quantity} | {known.mark} | {known.value:g} {known.unit} | "
            f"{value:.4g} {known.unit} | {100 * (value / known.value - 1):+.1f} % | {place} | "
            f"{found.peak_bytes / 2**30:.2f} GiB |"
        )
    yield ""


def other_banks(device: Device) -> str:
    """What the fit comes to if the bubble rates were taken with another number of banks."""
    asked, other = workload(), points(OTHER_BANKS)
    costs = squared(device, asked, points()), squared(fitted(device, asked, other), asked, other)
    return (
        f"Squared distances in tolerances, bubble rates at B={BUBBLE_BANKS}: {costs[0]:.2f}; fitted with them at "
        f"B={OTHER_BANKS}: {costs[1]:.2f}."
    )


def _value(point: Point, value: float) -> str:
    return f"{100 * value:.2f} %" if point.bubble else f"{value:.3f} s"


def _distance(point: Point, value: float) -> str:
    return f"{100 * (value - point.value):+.2f}" if point.bubble else f"{100 * (value / point.value - 1):+.2f} %"


if __name__ == "__main__":
    raise SystemExit(ended(main, left="the profile is as it was"))
