"""Make the lock files from pyproject.toml (`make lock`; `make lock LOCK_ARGS=--upgrade` takes newer releases).

- requirements.lock: what a user runs. requirements-dev.lock: the same and what `make test` needs.
- oracle/requirements.lock: the reference implementation's environment, without torch.
- oracle/torch-pypi.lock: torch as PyPI has it, with the accelerator libraries that this build requires (GBs on Linux).
- oracle/torch-cpu.lock: PyTorch's CPU build of the same release, which PyPI does not carry. `make` takes it where pip's
  own configuration offers it. Its hash is taken from the file that pip finds; where pip finds none, the lock stays.

Locks hold names, versions, markers and hashes, and no address of any index.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILE = "uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate".split()
ACCELERATOR_PREFIXES = ("nvidia-", "cuda-", "triton")  # required by PyPI's torch on Linux only


def compile_lock(target: str, extras: list[str], constraint: str | None, arguments: list[str]) -> None:
    """Resolve pyproject.toml with `extras` into the lock `target`, keeping to the versions of `constraint`."""
    options = [word for extra in extras for word in ("--extra", extra)]
    if constraint is not None:
        options += ["--constraint", constraint]
    command = [sys.executable, "-m", *COMPILE, "pyproject.toml", *options, "--output-file", target, *arguments]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def entries(text: str) -> list[tuple[str, str]]:
    """The (name, text) of each requirement of a lock: a line with the pin, then indented lines with its hashes."""
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith(" "):
            blocks[-1].append(line)
        elif line and not line.startswith("#"):
            blocks.append([line])
    return [(block[0].split("==")[0], "\n".join(block) + "\n") for block in blocks]


def split_oracle(whole: Path) -> None:
    """Write the two oracle locks from the resolution `whole`: torch with its accelerator libraries, and the rest."""
    parts: dict[bool, list[str]] = {True: [], False: []}
    for name, text in entries(whole.read_text()):
        parts[name == "torch" or name.startswith(ACCELERATOR_PREFIXES)].append(text)
    (ROOT / "oracle/torch-pypi.lock").write_text("".join(parts[True]))
    (ROOT / "oracle/requirements.lock").write_text("".join(parts[False]))


def lock_cpu_torch() -> None:
    """Record the hash of the CPU build of torch that pip finds here, if it finds one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pin = next(line for line in project["optional-dependencies"]["oracle"] if line.startswith("torch==")) + "+cpu"
    pip = [sys.executable, "-m", "pip"]
    with tempfile.TemporaryDirectory() as folder:
        download = [*pip, "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder, pin]
        if subprocess.run(download, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            print(f"pip finds no {pin} here: oracle/torch-cpu.lock is left as it is")
            return
        wheel = next(Path(folder).iterdir())
        printed = subprocess.run([*pip, "hash", str(wheel)], check=True, capture_output=True, text=True).stdout
    hashes = [line for line in printed.splitlines() if line.startswith("--hash=")]
    (ROOT / "oracle/torch-cpu.lock").write_text(" \\\n    ".join([pin, *hashes]) + "\n")


def main() -> None:
    """Make every lock; arguments are passed on to `uv pip compile`."""
    arguments = sys.argv[1:]
    compile_lock("requirements.lock", ["build"], None, arguments)
    compile_lock("requirements-dev.lock", ["build", "dev"], "requirements.lock", arguments)
    whole = ROOT / "build/oracle-whole.lock"
    whole.parent.mkdir(exist_ok=True)
    known = [ROOT / "oracle" / name for name in ("requirements.lock", "torch-pypi.lock")]
    whole.write_text("".join(path.read_text() for path in known if path.exists()))  # uv keeps to the versions it finds
    compile_lock(str(whole.relative_to(ROOT)), ["build", "oracle"], "requirements-dev.lock", arguments)
    split_oracle(whole)
    lock_cpu_torch()


if __name__ == "__main__":
    main()
