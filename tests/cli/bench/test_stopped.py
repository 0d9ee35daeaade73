"""^C in a bench: nothing of it is left, neither files nor processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[3]

PROGRAM = """
import sys
from estream_lab.bench import peers
peers.command = lambda name: [sys.executable, "tests/bench/numpy_peer.py", "mute"]
from estream_lab.cli import main
command = ["bench", "kernels", "--peer", "ggml", "--shape", "olmoe", "--tokens", "4", "--competitor", "1"]
from estream_lab.bench.shapes import SHAPES, LayerShape
SHAPES["olmoe"] = LayerShape("olmoe", 32, 64, 4, 2, 3.0)
sys.exit(main([*command, "--threads", "1", "--rounds", "1"]))
"""


def test_a_bench_that_is_stopped_leaves_nothing(cache: Path) -> None:
    """The peer hangs in its first call: files are written, and peer and competitor run."""
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as bench:
        assert bench.stderr is not None
        said = ""
        while "errors" not in said:  # the bar of the part in which it hangs, a line that doesn't end
            more = bench.stderr.read(1)
            assert more, said
            said += more
        (folder,) = cache.iterdir()
        assert list(folder.glob("olmoe.*"))
        children = psutil.Process(bench.pid).children(recursive=True)
        bench.send_signal(signal.SIGINT)
        rest = bench.communicate(timeout=60)[1]
    assert bench.returncode == 130 and "stopped" in rest, rest
    assert os.listdir(cache) == []
    assert len(children) >= 2 and not psutil.wait_procs(children, timeout=30)[1]
