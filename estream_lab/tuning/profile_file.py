"""Files of profiles: written whole or not at all, and refused where they are of no use."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from estream_lab.errors import EStreamError
from estream_lab.machine import processor
from estream_lab.streaming import Store
from estream_lab.streaming.store import manifest_checksum
from estream_lab.trace import write_atomically
from estream_lab.tuning.calibration import Calibration, Execution, Loading
from estream_lab.tuning.profile import Origin, Profile
from estream_lab.tuning.service import ServiceModel

FORMAT = "estream-profile"
VERSION = 1


def save_profile(profile: Profile, path: Path) -> None:
    """Write a profile.

    Raises:
        EStreamError: the file can't be written.
    """
    write_atomically(path, json.dumps(to_json(profile), allow_nan=False).encode() + b"\n")


def load_profile(path: Path, store: Store) -> Profile:
    """Read the profile of a store on this machine.

    Raises:
        EStreamError: no such file, something else than a profile, or one of another version, store or machine.
    """
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise EStreamError(f"can't read the profile {path}: {error.strerror}; make one with estream profile") from error
    except (ValueError, RecursionError) as error:
        raise EStreamError(f"{path} is no profile: it is not JSON; make one with estream profile") from error
    profile = from_json(document, str(path))
    check_profile(profile, store, str(path))
    return profile


def check_profile(profile: Profile, store: Store, name: str) -> None:
    """Refuse the profile called ``name`` unless it was measured with this store on this machine.

    Raises:
        EStreamError: it wasn't.
    """
    origin = profile.origin
    if origin.store_checksum != store.checksum:
        raise EStreamError(
            f"{name} is the profile of another store (manifest {origin.store_checksum}, and {store.path} has "
            f"{store.checksum}): make one with estream profile {store.path}"
        )
    if origin.machine != processor():
        raise EStreamError(
            f"{name} is the profile of another machine ({origin.machine}, and this is {processor()}): make one with "
            f"estream profile {store.path}"
        )


def to_json(profile: Profile) -> dict[str, Any]:
    """Plain types, with a checksum of all of them; `from_json` gives back an equal profile."""
    plain = {"format": FORMAT, "version": VERSION, **asdict(profile)}
    return {**plain, "checksum": manifest_checksum(plain)}


def from_json(document: Any, name: str) -> Profile:
    """The profile that `to_json` made plain; ``name`` is what messages call it.

    Raises:
        EStreamError: something else, or a damaged one, or one of another version.
    """
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise EStreamError(f"{name} is no profile of EStream Lab: make one with estream profile")
    if document.get("version") != VERSION:
        raise EStreamError(
            f"{name} is a profile of version {document.get('version')}, and this release reads {VERSION}: make a new "
            "one with estream profile"
        )
    try:
        if document["checksum"] != manifest_checksum(document):
            raise ValueError("its checksum is wrong")
        fields = {key: value for key, value in document.items() if key not in ("format", "version", "checksum")}
        fields["origin"] = Origin(**fields["origin"])
        fields["routes"] = tuple(tuple(map(int, layer)) for layer in fields["routes"])
        fields["record_bytes"] = tuple(map(int, fields["record_bytes"]))
        fields["runs"] = tuple(map(_run, fields["runs"]))
        fields["service"] = ServiceModel(**fields["service"])
        return Profile(**fields)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise EStreamError(f"{name} is a damaged profile ({error!r}): make a new one with estream profile") from error


def _run(fields: dict[str, Any]) -> Calibration:
    return Calibration(
        **fields
        | {
            "non_expert_ns": tuple(map(int, fields["non_expert_ns"])),
            "loadings": tuple(Loading(*row) for row in fields["loadings"]),
            "executions": tuple(Execution(*row) for row in fields["executions"]),
        }
    )
