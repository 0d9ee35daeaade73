"""Options that several commands share: sizes, prompts, and how the engine runs."""

import argparse
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.experts.executors import EXECUTORS, HOST_PROFILES
from estream_lab.experts.retention import KeepFirst
from estream_lab.experts.schedule import POLICIES
from estream_lab.kernels.profiles import DEFAULT_PROFILE, PROFILES
from estream_lab.machine import memory_budget_bytes
from estream_lab.models.spec import ModelSpec
from estream_lab.streaming import Store
from estream_lab.tuning.pipeline_file import Pipeline, read_pipeline

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_LARGEST_PROMPT = 64 << 20  # bytes; a device file has no end


def size(text: str) -> int:
    """Bytes of '900MiB', '2GiB', '1.5GB' or '4096'.

    Raises:
        argparse.ArgumentTypeError: anything else.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].upper() not in _UNITS:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 900MiB, 2GiB or 4096")
    count = int(Fraction(match[1]) * _UNITS[match[2].upper()])
    if count >= 2**63:
        raise argparse.ArgumentTypeError(f"'{text}' is more than a computer can address")
    return count


def rate(text: str) -> int:
    """Bytes a second of '20MB/s', or of a size.

    Raises:
        argparse.ArgumentTypeError: anything else.
    """
    return size(text.strip().removesuffix("/s"))


def budget(text: str) -> int:
    """Bytes of a size, or of 'available': see `machine.memory_budget_bytes`.

    Raises:
        argparse.ArgumentTypeError: anything else.
    """
    return memory_budget_bytes() if text == "available" else size(text)


def positive(text: str) -> int:
    """A whole number of at least 1, and of 18 digits at most: far beyond what any option can mean."""
    if not text.isdecimal() or len(text) > 18 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def add_prompt(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """--prompt, --prompt-file and --tokens."""
    group = parser.add_mutually_exclusive_group(required=required)
    group.add_argument("--prompt", metavar="TEXT", help="the prompt itself")
    group.add_argument("--prompt-file", type=Path, metavar="FILE", help="a UTF-8 text file")
    group.add_argument("--tokens", metavar="IDS", help="token ids, separated by commas or spaces")
    parser.add_argument("--max-tokens", type=positive, metavar="N", help="use only the first N tokens of the prompt")


def add_engine(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """STORE and how it runs."""
    count = None if required else "?"
    parser.add_argument("store", type=Path, metavar="STORE", nargs=count, help="a NAME.estream folder")
    parser.add_argument(
        "--executor",
        choices=EXECUTORS,
        default="host",
        help="what evaluates experts: the host's own kernels, or the device's arithmetic bit for bit (default: host)",
    )
    parser.add_argument(
        "--profile",
        choices=[*HOST_PROFILES, *PROFILES],
        help=f"the executor's arithmetic: with host {HOST_PROFILES[2]}, which quantises activations (default for Q4_0 "
        f"experts), {HOST_PROFILES[1]}, which rounds them and is slower, or {HOST_PROFILES[0]}, the slowest (default "
        f"for f32 experts); with exact one of the others (default {DEFAULT_PROFILE})",
    )
    parser.add_argument("--vtcm", type=size, metavar="SIZE", help="with exact: on-chip memory (default 8MiB)")
    parser.add_argument(
        "--schedule",
        choices=list(POLICIES),
        default="early",
        help="when groups are read: when their turn comes, once the routes are known, or from the layer's start "
        "(default: early)",
    )
    parser.add_argument(
        "--carry-over", action="store_true", help="with early: go on with the next layer's groups in free banks"
    )
    parser.add_argument(
        "--keep-banks", type=positive, metavar="N", help="keep the first N groups for later requests or chunks"
    )
    parser.add_argument(
        "--check-hazards", action="store_true", help="watch every read and execution, and give up at a hazard"
    )
    parser.add_argument(
        "--group-size", type=positive, metavar="G", help="experts a group (default: as configured, else 8)"
    )
    parser.add_argument(
        "--banks",
        type=positive,
        metavar="B",
        help="groups in the arena (default: as configured, else 3, at most a layer's groups)",
    )
    parser.add_argument("--queue-depth", type=positive, metavar="Q", help="outstanding reads (default 2)")
    parser.add_argument("--arena", type=size, metavar="SIZE", help="arena size instead of --banks")
    parser.add_argument(
        "--memory-budget",
        type=budget,
        metavar="SIZE",
        help="most memory that the process may have resident; as many banks as fit, unless --banks or --arena say how "
        "many. 'available': what this computer and the process's control group can give now",
    )
    parser.add_argument("--threads", type=positive, metavar="N", help="compute threads (default: all processors)")
    parser.add_argument("--route-capacity", type=positive, metavar="C", help="most routes of one invocation")
    parser.add_argument("--chunk-tokens", type=positive, metavar="N", help="T_max: longer prompts run in chunks")
    parser.add_argument(
        "--read-bandwidth", type=rate, metavar="SIZE/s", help="hold expert reads to a declared limit, e.g. 20MB/s"
    )
    parser.add_argument("--resident", action="store_true", help="hold all experts in memory (for comparison)")


def configured(options: argparse.Namespace) -> Pipeline | None:
    """What `estream configure` chose for the store on this computer; None where nothing, or where the options say how.

    Raises:
        EStreamError: not a store, or a file in the configuration's place that is something else.
    """
    said = (options.group_size, options.banks, options.queue_depth, options.arena, options.memory_budget)
    plain = options.schedule == "early" and options.executor == "host" and not options.carry_over
    if any(each is not None for each in said) or options.resident or options.keep_banks or not plain:
        return None
    return read_pipeline(Store(options.store))


def open_engine(options: argparse.Namespace) -> PrefillEngine:
    """The engine that the options describe, or the store's configuration where they leave that open."""
    if (chosen := configured(options)) is not None:
        options.group_size, options.banks, options.queue_depth = chosen.group_size, chosen.banks, chosen.queue_depth
    return PrefillEngine.open(
        options.store,
        progress=not options.json,
        schedule=options.schedule,
        carry_over=options.carry_over,
        retention=KeepFirst(options.keep_banks) if options.keep_banks else None,
        check_hazards=options.check_hazards,
        group_size=options.group_size,
        banks=options.banks,
        queue_depth=options.queue_depth,
        arena_bytes=options.arena,
        memory_budget=options.memory_budget,
        threads=options.threads,
        route_capacity=options.route_capacity,
        chunk_tokens=options.chunk_tokens,
        read_bandwidth=options.read_bandwidth,
        resident=options.resident,
        executor=options.executor,
        profile=options.profile,
        vtcm_bytes=options.vtcm,
        record_steps=getattr(options, "steps", None) is not None,
    )


def prompt_tokens(options: argparse.Namespace, engine: PrefillEngine) -> NDArray[np.int32]:
    """Token ids (T,) of the prompt options.

    Raises:
        EStreamError: an unreadable file, ids that aren't numbers, or text where the store has no tokenizer.
    """
    if options.tokens is not None:
        try:
            ids = np.array([int(part) for part in options.tokens.replace(",", " ").split()], np.int64)
        except ValueError as error:
            raise EStreamError(f"--tokens takes whole numbers separated by commas, not '{options.tokens}'") from error
        except OverflowError as error:
            raise EStreamError("--tokens holds a number that no token has: it takes more than 64 bits") from error
    else:
        if engine.tokenizer is None:
            raise EStreamError(f"{engine.store.path} has no tokenizer: give --tokens")
        text = str(options.prompt) if options.prompt is not None else read_text(options.prompt_file)
        ids = engine.tokenizer.encode(text).astype(np.int64)
    return ids[: options.max_tokens]  # type: ignore[return-value]


def made_up_tokens(count: int, spec: ModelSpec, option: str) -> NDArray[np.int32]:
    """As many token ids as ``option`` asks for where there is no prompt: (T,).

    Raises:
        EStreamError: more than the model's context.
    """
    if count > spec.context:
        raise EStreamError(f"{option} {count} is more than the model's context of {spec.context}")
    return ((7 * np.arange(count) + 3) % spec.vocab).astype(np.int32)


def read_text(path: Path) -> str:
    """The text of --prompt-file.

    Raises:
        EStreamError: a file that can't be read, is no text, or has no end.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST_PROMPT + 1)
        if len(content) > _LARGEST_PROMPT:
            raise EStreamError(f"{path} is larger than {_LARGEST_PROMPT >> 20} MiB: give a shorter prompt")
        return content.decode("utf-8")
    except OSError as error:
        raise EStreamError(f"can't read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise EStreamError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error


def kept_files(options: argparse.Namespace, *paths: Path | None) -> str:
    """Which of a stopped run's results are there already; each is whole."""
    new = [str(path) for path in paths if path and path.exists() and path.stat().st_mtime_ns >= options.started_ns]
    return f"{' and '.join(new)} {'is' if len(new) == 1 else 'are'} whole" if new else "no file was changed"
