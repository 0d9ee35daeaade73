"""Make the locks of the peers' environment from peers/*.in (`make lock` runs it, after tools/lock.py).

- peers/requirements.lock: everything that comes as a wheel, build tools included. torch is left to the oracle's locks,
  which hold the same release.
- peers/llama-cpp.lock: what is built from source, with those tools, after they are there.
- peers/kt-kernel.lock: what not every platform has.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.lock import ACCELERATOR_PREFIXES, COMPILE, ROOT, entries

FROM_SOURCE = "llama-cpp-python"
REQUIREMENTS, LLAMA_CPP, KT_KERNEL = (
    ROOT / "peers" / f"{name}.lock" for name in ("requirements", "llama-cpp", "kt-kernel")
)


def compile_lock(source: str, target: Path, *options: str) -> None:
    """Resolve, keeping to the versions that `target` holds already unless an argument of ours says otherwise."""
    command = [sys.executable, "-m", *COMPILE, source, "--python-version", "3.11", "--output-file", str(target)]
    subprocess.run([*command, *options, *sys.argv[1:]], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Resolve in step with the development lock, then split."""
    whole = ROOT / "build/peers-whole.lock"
    whole.parent.mkdir(exist_ok=True)
    known = (REQUIREMENTS, LLAMA_CPP, ROOT / "oracle/torch-pypi.lock")
    whole.write_text("".join(path.read_text() for path in known if path.exists()))
    compile_lock("peers/requirements.in", whole, "--constraint", "requirements-dev.lock")
    parts: dict[bool, list[str]] = {True: [], False: []}
    for name, text in entries(whole.read_text()):
        if name != "torch" and not name.startswith(ACCELERATOR_PREFIXES):
            parts[name == FROM_SOURCE].append(text)
    LLAMA_CPP.write_text("".join(parts[True]))
    REQUIREMENTS.write_text("".join(parts[False]))
    compile_lock("peers/kt-kernel.in", KT_KERNEL, "--no-deps")


if __name__ == "__main__":
    main()
