"""The peers: their programs in peers/, run by the Python of an environment of their own."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import estream_lab
from estream_lab.bench.environment import peers_environment
from estream_lab.bench.rows import PeerRow
from estream_lab.bench.session import PeerFailed, Session
from estream_lab.errors import EStreamError

CHECKOUT = Path(estream_lab.__file__).resolve().parent.parent
ENVIRONMENT = CHECKOUT / ".venv-peers"

PEERS = {"ggml": "ggml_peer.py", "torch": "torch_peer.py", "ktransformers": "ktransformers_peer.py"}
"""Programs by the peer's name: they compute layers of experts."""

PREFILL_PEERS = {"llama.cpp": "llama_peer.py"}
"""Programs by the peer's name: they run whole models."""


@contextmanager
def peers(names: Sequence[str]) -> Iterator[tuple[list[PeerRow], dict[str, Any]]]:
    """Start peers and end them again: their rows, and by name how each was built.

    Raises:
        EStreamError: there is no environment for them, or a peer fails.
    """
    rows, builds = [], {}
    with ExitStack() as stack:
        for name in dict.fromkeys(names):
            session = stack.enter_context(Session(name, command(name), environment=peers_environment()))
            offered = session.ask("offer")
            try:
                builds[name] = offered["build"]
                rows += [PeerRow(session, row) for row in offered["rows"]]
            except (KeyError, TypeError, ValueError) as error:
                raise PeerFailed(f"the peer {name} offers no rows ({error}): run `make peers` again") from error
        yield rows, builds


def check_installed(names: Sequence[str]) -> None:
    """See that peers are there, before work is spent on what they compute.

    Raises:
        EStreamError: one isn't.
    """
    for name in names:
        command(name)


def absent(name: str) -> str:
    """Why `make peers` left a peer out; nothing of one that it installed."""
    path = ENVIRONMENT / f"{name}-absent.txt"
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def command(name: str) -> list[str]:
    """How a peer is started.

    Raises:
        EStreamError: its environment isn't there, or was made without this peer.
    """
    python, program = ENVIRONMENT / "bin" / "python", CHECKOUT / "peers" / (PEERS | PREFILL_PEERS)[name]
    if not program.exists():
        raise EStreamError(f"the peer {name} is part of the checkout, not of the installed package: run from there")
    if not python.exists():
        raise EStreamError(f"the peer {name} needs the environment {ENVIRONMENT}: make it with `make peers`")
    reason = absent(name)
    if reason:
        raise EStreamError(f"the peer {name} is not there on this computer ({reason}): leave it out with --peer")
    return [str(python), str(program)]
