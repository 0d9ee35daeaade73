"""Build the two training corpora, byte for byte, from archives that Debian distributes.

- *text*: the King James Version, one verse a line (``Ge1:1 In the beginning ...``), printed by the
  ``bible`` command of Debian's ``bible-kjv`` from the data file of ``bible-kjv-text``;
- *code*: ``Lib/*.py`` of CPython 3.11.2 in sorted order, from Debian's upstream source archive, which
  is python.org's ``Python-3.11.2.tgz`` unchanged.

``sources.json`` beside this file records each source's license and the SHA-256 of archives and corpora;
anything that differs is refused.  The last ``HELDOUT_BYTES`` bytes of each corpus are never trained on.

    python data/tiny_moe/corpus.py             # download with apt, extract, verify
    python data/tiny_moe/corpus.py --archives DIR   # the same from archives that are already there
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).resolve().parent
CORPUS_DIR = HERE / "corpus"
DOMAINS = ("text", "code")
HELDOUT_BYTES = 200_000
# What is committed for demos and tests: the last whole lines of the held-out part, at most this long.
SAMPLE_BYTES = 64 * 1024

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Corpus:
    """One domain's bytes, split into the part trained on and the part held out."""

    domain: str
    train: Bytes  # [train bytes]
    heldout: Bytes  # [HELDOUT_BYTES]


def sources() -> dict[str, Any]:
    """The parsed ``sources.json``: per domain the archives, licenses and SHA-256 sums."""
    parsed: dict[str, Any] = json.loads((HERE / "sources.json").read_text())
    return parsed


def verify(data: bytes, sha256: str, what: str) -> None:
    """Raise ``ValueError`` unless ``data`` has the recorded SHA-256."""
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ValueError(
            f"{what}: SHA-256 is {found}, sources.json records {sha256}; "
            "get the version that sources.json names, or delete a damaged download and run again"
        )


def load(domain: str, directory: Path = CORPUS_DIR) -> Corpus:
    """Read one verified corpus and split off its held-out end."""
    path = directory / f"{domain}.bin"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run `python data/tiny_moe/corpus.py` first")
    data = path.read_bytes()
    verify(data, sources()[domain]["corpus_sha256"], str(path))
    array = np.frombuffer(data, dtype=np.uint8)  # [corpus bytes]
    return Corpus(domain, array[:-HELDOUT_BYTES], array[-HELDOUT_BYTES:])


def download(directory: Path) -> None:
    """Fetch the archives with apt; needs neither root nor a change to the system's sources.

    Source packages need a ``deb-src`` entry, which few systems have, so apt is run on a private copy
    of the Debian entries.
    """
    lists = directory / "apt"
    (lists / "state" / "partial").mkdir(parents=True, exist_ok=True)
    (lists / "sources.list.d").mkdir(exist_ok=True)
    entries = Path("/etc/apt/sources.list.d/debian.sources")
    if not entries.exists():
        raise FileNotFoundError(
            f"{entries} is missing: get the archives that sources.json names by other means "
            "and pass their folder as --archives"
        )
    text = entries.read_text().replace("Types: deb\n", "Types: deb deb-src\n")
    (lists / "sources.list.d" / "debian.sources").write_text(text)
    apt = [
        "apt-get",
        "--quiet=2",
        "--option=Dir::Etc::sourcelist=/dev/null",
        f"--option=Dir::Etc::sourceparts={lists / 'sources.list.d'}",
        f"--option=Dir::State::lists={lists / 'state'}",
    ]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", "bible-kjv", "bible-kjv-text"], cwd=directory, check=True)
    # The upstream archive stays the same through Debian's security updates; the rest is not needed.
    subprocess.run([*apt, "source", "--download-only", "--tar-only", "python3.11"], cwd=directory, check=True)


def extract_text(archives: Path) -> bytes:
    """Print the whole King James Version with the ``bible`` command of the downloaded packages."""
    with tempfile.TemporaryDirectory() as root:
        for pattern in ("bible-kjv_*.deb", "bible-kjv-text_*.deb"):
            (deb,) = archives.glob(pattern)
            subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
        command = [f"{root}/usr/bin/bible", "-p", f"{root}/usr/lib", "-f", "gen1:1-rev22:21"]
        return subprocess.run(command, check=True, capture_output=True).stdout


def extract_code(archives: Path) -> bytes:
    """Concatenate the top-level modules of CPython's library in sorted order."""
    archive = archives / sources()["code"]["archives"][0]["file"]
    verify(archive.read_bytes(), sources()["code"]["archives"][0]["sha256"], archive.name)
    modules: dict[str, bytes] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            path = Path(member.name)
            if member.isfile() and path.suffix == ".py" and path.parent.as_posix() == "Python-3.11.2/Lib":
                stream = tar.extractfile(member)
                assert stream is not None  # a regular file always has a stream
                modules[path.name] = stream.read()
    return b"".join(modules[name] for name in sorted(modules))


def sample(heldout: bytes) -> bytes:
    """The last whole lines of a held-out part, at most ``SAMPLE_BYTES`` long."""
    tail = heldout[-SAMPLE_BYTES:]
    return tail[tail.index(b"\n") + 1 :]


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside the target and rename, so that a killed run leaves no half file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    os.replace(partial, path)


def build(archives: Path, directory: Path = CORPUS_DIR) -> None:
    """Extract, verify and write ``text.bin``, ``code.bin`` and the committed held-out samples."""
    extracted = {"text": extract_text(archives), "code": extract_code(archives)}
    for domain, data in extracted.items():
        verify(data, sources()[domain]["corpus_sha256"], f"the {domain} corpus")
        write_atomically(directory / f"{domain}.bin", data)
        write_atomically(HERE / "heldout" / f"{domain}.txt", sample(data[-HELDOUT_BYTES:]))
        print(f"{domain}: {len(data):,} bytes, of which the last {HELDOUT_BYTES:,} are held out")


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--archives", type=Path, help="folder of the archives (default: download with apt)")
    parser.add_argument("--out", type=Path, default=CORPUS_DIR, help="folder for text.bin and code.bin")
    arguments = parser.parse_args()
    if arguments.archives is not None:
        build(arguments.archives, arguments.out)
        return
    with tempfile.TemporaryDirectory() as scratch:
        download(Path(scratch))
        build(Path(scratch), arguments.out)


if __name__ == "__main__":
    main()
