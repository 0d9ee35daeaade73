"""``pipeline/<machine>.json`` in a store: the configuration chosen for this machine, and the profile behind it."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from estream_lab.errors import EStreamError
from estream_lab.machine import processor
from estream_lab.streaming import Store
from estream_lab.streaming.store import manifest_checksum
from estream_lab.trace import write_atomically
from estream_lab.tuning import profile_file
from estream_lab.tuning.configure import Selection
from estream_lab.tuning.profile import Profile

FORMAT = "estream-pipeline"
VERSION = 1
FOLDER = "pipeline"
NUMBERS = ("group_size", "queue_depth", "banks", "budget_bytes")


@dataclass(frozen=True)
class Pipeline:
    """The configuration of a store on this machine.

    Attributes:
        path: of the file. group_size, queue_depth, banks: G, Q and B. budget_bytes: that they were chosen for.
        document: the whole file.
    """

    path: Path
    group_size: int
    queue_depth: int
    banks: int
    budget_bytes: int
    document: dict[str, Any]

    def profile(self) -> Profile:
        """The profile that the choice was made by.

        Raises:
            EStreamError: it is of another version.
        """
        return profile_file.from_json(self.document["profile"], str(self.path))


def pipeline_path(store: Store) -> Path:
    """Where the configuration for this machine lies, whether it is there or not."""
    name = re.sub(r"[^a-z0-9]+", "-", processor().lower()).strip("-") or "machine"
    return store.path / FOLDER / f"{name}.json"


def write_pipeline(store: Store, selection: Selection, profile: Profile) -> Path:
    """Keep a choice in the store, in place of an older one; returns its path.

    Raises:
        EStreamError: the place can't be written, or holds a file that isn't this store's and machine's configuration.
    """
    path = pipeline_path(store)
    read_pipeline(store)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "machine": processor(),
        "store_checksum": store.checksum,
        "configuration": selection.to_json(),
        "profile": profile_file.to_json(profile),
    }
    document["checksum"] = manifest_checksum(document)
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise EStreamError(f"can't write {path}: {error.strerror}; make the store's folder writable") from error
    write_atomically(path, json.dumps(document, allow_nan=False).encode() + b"\n")
    return path


def read_pipeline(store: Store) -> Pipeline | None:
    """The store's configuration for this machine; None where there is none.

    Raises:
        EStreamError: a file in its place that is something else, damaged, or of another version, store or machine.
    """
    path = pipeline_path(store)
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EStreamError(
            f"can't read {path}: {error.strerror}; remove it, and run estream configure again"
        ) from error
    except (ValueError, RecursionError):
        document = None
    if fault := _fault(document, store):
        raise EStreamError(f"{path} {fault}: remove it, and run estream configure again")
    try:
        group_size, queue_depth, banks, budget_bytes = (int(document["configuration"][name]) for name in NUMBERS)
        return Pipeline(path, group_size, queue_depth, banks, budget_bytes, document)
    except (LookupError, TypeError, ValueError) as error:
        raise EStreamError(f"{path} is damaged ({error!r}): remove it, and run estream configure again") from error


def _fault(document: Any, store: Store) -> str:
    """What makes a file useless here; nothing if it is as it should be."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        return "is no configuration of EStream Lab"
    if document.get("version") != VERSION:
        return f"is a configuration of version {document.get('version')}, and this release reads {VERSION}"
    if document.get("checksum") != manifest_checksum(document):
        return "was changed since it was written"
    if document.get("store_checksum") != store.checksum:
        return f"is the configuration of another store (manifest {document.get('store_checksum')})"
    if document.get("machine") != processor():
        return f"is the configuration of another machine ({document.get('machine')}, and this is {processor()})"
    return ""
