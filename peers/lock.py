"""Make the locks of the peers' environment from peers/requirements.in (`make lock` runs it, after tools/lock.py).

- peers/requirements.lock: everything that comes as a wheel, build tools included. torch is left to the oracle's locks,
  which hold the same release.
- peers/llama-cpp.lock: what is built from source, with those tools, after they are there.
"""

from __future__ import annotations

import subprocess
import sys

from tools.lock import ACCELERATOR_PREFIXES, COMPILE, ROOT, entries

FROM_SOURCE = "llama-cpp-python"
LOCKS = ("peers/requirements.lock", "peers/llama-cpp.lock")


def main() -> None:
    """Resolve, keeping to the versions of the development lock and of the locks that are there; then split."""
    whole = ROOT / "build/peers-whole.lock"
    whole.parent.mkdir(exist_ok=True)
    known = [ROOT / name for name in (*LOCKS, "oracle/torch-pypi.lock")]
    whole.write_text("".join(path.read_text() for path in known if path.exists()))  # uv keeps to the versions it finds
    options = ["--python-version", "3.11", "--constraint", "requirements-dev.lock", "--output-file", str(whole)]
    command = [sys.executable, "-m", *COMPILE, "peers/requirements.in", *options, *sys.argv[1:]]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    parts: dict[str, list[str]] = {name: [] for name in LOCKS}
    for name, text in entries(whole.read_text()):
        if name != "torch" and not name.startswith(ACCELERATOR_PREFIXES):
            parts[LOCKS[name == FROM_SOURCE]].append(text)
    for name, texts in parts.items():
        (ROOT / name).write_text("".join(texts))


if __name__ == "__main__":
    main()
