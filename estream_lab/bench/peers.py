"""The peers: their programs in peers/, run by the Python of an environment of their own."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import estream_lab
from estream_lab.bench.rows import PeerRow
from estream_lab.bench.session import PeerFailed, Session
from estream_lab.errors import EStreamError

CHECKOUT = Path(estream_lab.__file__).resolve().parent.parent
ENVIRONMENT = CHECKOUT / ".venv-peers"

PEERS = {"ggml": "ggml_peer.py", "torch": "torch_peer.py", "ktransformers": "ktransformers_peer.py"}
"""Programs by the peer's name: they compute layers of experts."""

PREFILL_PEERS = {"llama.cpp": "llama_peer.py"}
"""Programs by the peer's name: they run whole models."""

# Memory that is freed stays with the process: a call that allocates its temporaries anew then doesn't pay for pages.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 25), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}


@contextmanager
def peers(names: Sequence[str]) -> Iterator[tuple[list[PeerRow], dict[str, Any]]]:
    """Start peers and end them again: their rows, and by name how each was built.

    Raises:
        EStreamError: there is no environment for them, or a peer fails.
    """
    rows, builds = [], {}
    with ExitStack() as stack:
        for name in dict.fromkeys(names):
            session = stack.enter_context(Session(name, command(name), environment=KEEP_MEMORY))
            offered = session.ask("offer")
            try:
                builds[name] = offered["build"]
                rows += [PeerRow(session, row) for row in offered["rows"]]
            except (KeyError, TypeError, ValueError) as error:
                raise PeerFailed(f"the peer {name} offers no rows ({error}): run `make peers` again") from error
        yield rows, builds


def command(name: str) -> list[str]:
    """How a peer is started.

    Raises:
        EStreamError: its environment isn't there.
    """
    python, program = ENVIRONMENT / "bin" / "python", CHECKOUT / "peers" / (PEERS | PREFILL_PEERS)[name]
    if not program.exists():
        raise EStreamError(f"the peer {name} is part of the checkout, not of the installed package: run from there")
    if not python.exists():
        raise EStreamError(f"the peer {name} needs the environment {ENVIRONMENT}: make it with `make peers`")
    return [str(python), str(program)]
