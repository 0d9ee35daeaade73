"""A house with floors: a file imports from its own room or from floors below, never upwards or across."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

FLOORS = {
    10: ["estream_lab.__main__"],
    9: ["estream_lab.cli", "estream_lab.course"],
    8: ["estream_lab.viz"],
    7: ["estream_lab.tuning", "estream_lab.evaluate", "estream_lab.doctor", "estream_lab.bench"],
    6: ["estream_lab.engine"],
    5: ["device_bridge"],
    4: ["estream_lab.streaming", "estream_lab.simulate"],
    3: ["estream_lab.experts"],
    2: ["estream_lab.models"],
    1: ["estream_lab.kernels", "estream_lab.routing"],
    0: [
        "estream_lab.trace",
        "estream_lab.notebooks",
        "estream_lab.machine",
        "estream_lab.cgroup",
        "estream_lab.workers",
    ],
    -1: ["estream_lab.errors", "estream_lab"],  # the package itself holds the version: anyone may ask for it
}
FLOOR_OF = {room: floor for floor, rooms in FLOORS.items() for room in rooms}
PACKAGES = ("estream_lab", "device_bridge")


def room_of(module: str) -> str:
    """The room that a module lies in: `estream_lab.models.spec` lies in `estream_lab.models`."""
    parts = module.split(".")
    return parts[0] if parts[0] == "device_bridge" else ".".join(parts[:2])


def imports_of(source: str, module: str, is_package: bool) -> list[str]:
    """Every module of this project that a source imports, wherever in it; names taken `from` a package count too."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".")[: None if is_package else -1]
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            if base == "estream_lab":  # `from estream_lab import engine` names a room, `import __version__` does not
                rooms = [f"{base}.{alias.name}" for alias in node.names]
                found += [room if room in FLOOR_OF else base for room in rooms]
            else:
                found.append(base)
    return [name for name in found if name.split(".")[0] in PACKAGES]


def climbs(source: str, module: str, is_package: bool = False) -> list[str]:
    """The imports of a source that the architecture forbids, each as one sentence."""
    room = room_of(module)
    if room not in FLOOR_OF:
        return [f"{module}: the room {room} has no floor in FLOORS"]
    faults: list[str] = []
    for imported in imports_of(source, module, is_package):
        other = room_of(imported)
        if other not in FLOOR_OF:
            faults.append(f"{module} imports {imported}, whose room has no floor in FLOORS")
        elif other != room and FLOOR_OF[other] >= FLOOR_OF[room]:
            direction = "climbs to" if FLOOR_OF[other] > FLOOR_OF[room] else "goes across on"
            faults.append(f"{module} imports {imported}, which {direction} floor {FLOOR_OF[other]}")
    return faults


def test_no_import_climbs_a_floor() -> None:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert paths
    faults: list[str] = []
    for path in paths:
        is_package = path.name == "__init__.py"
        parts = path.relative_to(ROOT).with_suffix("").parts
        faults += climbs(path.read_text(), ".".join(parts[:-1] if is_package else parts), is_package)
    assert faults == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("estream_lab.kernels.quant", "from estream_lab.experts.graph import ExpertGraph"),
        ("estream_lab.kernels.quant", "import estream_lab.engine"),
        ("estream_lab.kernels.quant", "from estream_lab import engine"),
        ("estream_lab.kernels.quant", "from ..engine import PrefillEngine"),
        ("estream_lab.kernels.quant", "from .. import engine"),
        ("estream_lab.kernels.quant", "def late():\n    from estream_lab.routing import Routes"),
        ("estream_lab.simulate.soc", "from estream_lab.streaming import store"),
        ("estream_lab.trace", "from estream_lab.notebooks import run"),
        ("estream_lab.errors", "from estream_lab.trace import Span"),
        ("estream_lab.streaming.lane", "import device_bridge.session"),
        ("estream_lab.viz.figures", "from estream_lab.helpers import anything"),
        ("estream_lab.utils", "import numpy"),
    ],
)
def test_a_planted_climb_is_caught(module: str, source: str) -> None:
    assert len(climbs(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("estream_lab.kernels.quant", "from estream_lab.kernels.layout import pack_f32"),
        ("estream_lab.kernels.quant", "from .layout import pack_f32"),
        ("estream_lab.experts.graph", "from ..kernels import quant"),
        ("estream_lab.trace", "from estream_lab.errors import EStreamError"),
        ("estream_lab.trace", "from estream_lab import __version__"),
        ("estream_lab.engine", "import device_bridge, estream_lab.streaming.store, numpy"),
        ("estream_lab.__main__", "from estream_lab.cli import main"),
    ],
)
def test_imports_downwards_and_at_home_pass(module: str, source: str) -> None:
    assert climbs(source, module) == []


def test_a_package_resolves_its_relative_imports_from_itself() -> None:
    assert climbs("from .store import Store", "estream_lab.streaming", is_package=True) == []
    assert len(climbs("from ..engine import PrefillEngine", "estream_lab.streaming", is_package=True)) == 1
