"""^C and SIGTERM to real processes: loading, compiling, waiting for a slow or hung disk, and where Python can't act."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.full.processes import started
from tests.stores import synthetic_store

SIGNALS = [signal.SIGINT, signal.SIGTERM]
TOKENS = " ".join(map(str, range(40, 64)))

CLI = "from estream_lab.cli import main\nsys.exit(main())\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_store(tmp_path_factory.mktemp("signals"))


def stop(code: str, arguments: list[str], number: int, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Start a process, send it the signal once it prints "ready"; its status and standard error."""
    command, env = [sys.executable, "-c", code, *arguments], os.environ | (environment or {})
    with started(command, stderr=subprocess.PIPE, env=env) as process:
        wait_until_ready(process)
        start = time.monotonic()
        process.send_signal(number)
        _, err = process.communicate()
        sys.stdout.write(f"ended {time.monotonic() - start:.2f} s after {signal.Signals(number).name}\n")
        return process.returncode, err


def wait_until_ready(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line == "ready\n":
            return
    pytest.fail(f"it never came to what is to be stopped: {lines}, {process.communicate()[1]}")


def one_sentence(status: int, err: str, number: int) -> bool:
    lines = [line for line in err.replace("\r", "\n").splitlines() if line.strip() and "|" not in line]  # a bar is none
    return status == 128 + number and len(lines) == 1 and lines[0].startswith("estream: stopped: ")


PATCHED = {
    # a step of the command, and code that gets there and says so: in one write, for two reader threads may get there
    "loading": (
        "import sys, os, time\n"
        "class Load:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'estream_lab.streaming':\n"
        "            os.write(1, b'ready\\n')\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Load())\n"
    ),
    "a hung read": (
        "import sys, os, threading\n"
        "def hang(*_):\n"
        "    os.write(1, b'ready\\n')\n"
        "    threading.Event().wait()\n"
        "os.preadv = hang\n"
    ),
    "hung dense weights": (
        "import sys, os, threading\n"
        "def hang(*_):\n"
        "    os.write(1, b'ready\\n')\n"
        "    threading.Event().wait()\n"
        "os.pread = hang\n"
    ),
    "a main thread that no signal reaches": (  # as in a compiler's call, or a read of a disk that doesn't answer
        "import os, sys, ctypes, signal\n"
        "from estream_lab.engine import prefill\n"
        "def stuck(*_):\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])\n"
        "    os.write(1, b'ready\\n')\n"
        "    ctypes.CDLL(None).sleep(600)\n"
        "prefill.open_kernels = stuck\n"
    ),
    "an exception that is lost": (  # Python would only print one of a destructor, or of a compiler's callback
        "import os, sys, time\n"
        "from estream_lab.engine import prefill\n"
        "class Swallow:\n"
        "    def __del__(self):\n"
        "        os.write(1, b'ready\\n')\n"
        "        time.sleep(600)\n"
        "def lost(*_):\n"
        "    Swallow()\n"
        "    time.sleep(600)\n"
        "prefill.open_kernels = lost\n"
    ),
}


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("case", PATCHED)
def test_a_prefill_is_stopped_wherever_it_is(store: Path, case: str, number: int) -> None:
    arguments = ["prefill", str(store), "--tokens", TOKENS, "--group-size", "3", "--banks", "2"]
    status, err = stop(PATCHED[case] + CLI, arguments, number)
    assert one_sentence(status, err, number), (status, err)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_tiny_bandwidth_does_not_hold_up_a_stop(store: Path, number: int) -> None:
    code = (
        "import os, sys\n"
        "from estream_lab.streaming.bandwidth import TokenBucket\n"
        "real = TokenBucket.take\n"
        "TokenBucket.take = lambda *a: (os.write(1, b'ready\\n'), real(*a))\n"
    )
    arguments = ["prefill", str(store), "--tokens", TOKENS, "--read-bandwidth", "1KB/s"]
    status, err = stop(code + CLI, arguments, number)
    assert one_sentence(status, err, number), (status, err)


@pytest.mark.parametrize("seconds", [1.0, 4.0])
@pytest.mark.parametrize("number", SIGNALS)
def test_compiling_kernels_is_stopped(store: Path, tmp_path: Path, number: int, seconds: float) -> None:
    """A first run on a computer: seconds in the compiler."""
    code = (
        "import os, sys, threading\n"
        "from estream_lab.cli import main\n"
        "from estream_lab.engine import kernels\n"
        "real = kernels.load_kernels\n"
        "def compiling(*given):\n"
        f"    threading.Timer({seconds}, lambda: os.write(1, b'ready\\n')).start()\n"
        "    real(*given)\n"
        "    threading.Event().wait()\n"  # on a computer that compiles faster
        "kernels.load_kernels = compiling\n"
        "sys.exit(main())\n"
    )
    arguments = ["prefill", str(store), "--tokens", TOKENS]
    status, err = stop(code, arguments, number, {"NUMBA_CACHE_DIR": str(tmp_path)})
    assert one_sentence(status, err, number), (status, err)


def test_a_reader_that_takes_nothing_does_not_hold_up_a_stop(store: Path) -> None:
    """Standard output is a pipe that is full: the sentence goes to standard error, and the process ends."""
    code = (
        "import sys, os, io\n"
        "class Full(io.TextIOWrapper):\n"
        "    def flush(self):\n"
        "        print('ready', file=sys.stderr, flush=True)\n"
        "        super().flush()\n"
        "os.set_blocking(1, False)\n"
        "try:\n"
        "    while os.write(1, b'x' * 65536): pass\n"
        "except BlockingIOError: pass\n"
        "os.set_blocking(1, True)\n"
        "sys.stdout = Full(sys.stdout.detach())\n"
    )
    command = [sys.executable, "-c", code + CLI, "prefill", str(store), "--tokens", TOKENS, "--json"]
    with started(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None and process.stderr.readline() == "ready\n"  # its result is being written
        process.send_signal(signal.SIGTERM)
        process.wait()
        assert process.returncode == 143
        lines = [line for line in process.stderr.read().splitlines() if line != "ready"]
    assert len(lines) == 1 and lines[0].startswith("estream: stopped: ")


def memory_groups() -> set[Path]:
    return {path for root in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup") for path in Path(root).glob("estream-*")}


@pytest.mark.parametrize("number", SIGNALS)
def test_a_bench_takes_its_own_processes_along(tmp_path: Path, number: int) -> None:
    """Its prefills run in processes of their own, in memory control groups."""
    code = (
        "import os, sys, subprocess\n"
        "from estream_lab import cgroup\n"
        "real = subprocess.Popen.communicate\n"
        "def communicate(self, *a, **k):\n"
        "    os.write(1, b'ready\\n')\n"
        "    return real(self, *a, **k)\n"
        "subprocess.Popen.communicate = communicate\n"
    )
    shape = "--hidden 64 --ffn 32 --layers 2 --experts 6 --top-k 2 --length 8 --group-size 2 --banks 2"
    arguments = ["bench", "scale", *shape.split(), "--folder", str(tmp_path / "kept")]
    before = memory_groups()  # another run on this computer may have some
    status, err = stop(code + CLI, arguments, number)
    assert one_sentence(status, err, number), (status, err)
    assert memory_groups() <= before


def test_the_same_signal_again_and_again_is_one_stop(store: Path) -> None:
    command = [sys.executable, "-c", PATCHED["a hung read"] + CLI, "prefill", str(store), "--tokens", TOKENS]
    with started(command, stderr=subprocess.PIPE) as process:
        wait_until_ready(process)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)  # between two presses
        assert process.stderr is not None
        assert one_sentence(process.returncode, process.stderr.read(), signal.SIGINT)


def test_json_of_a_stop_is_one_object(store: Path) -> None:
    arguments = ["prefill", str(store), "--tokens", TOKENS, "--json"]
    command = [sys.executable, "-c", PATCHED["a hung read"] + CLI, *arguments]
    with started(command, stderr=subprocess.DEVNULL) as process:
        wait_until_ready(process)
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        lines = [line for line in process.stdout.read().splitlines() if line != "ready"]
    assert [json.loads(line) for line in lines] == [{"error": "stopped: no file was changed"}]
