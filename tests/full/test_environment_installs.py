"""What environment.yml asks conda for, asked of pip in an environment with nothing in it: it resolves and installs."""

import json
import subprocess
import sys
import venv
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.repository.test_environment import RUNTIME, conda_requirements


def test_the_pip_equivalents_of_environment_yml_install(tmp_path: Path) -> None:
    wanted = [r for r in conda_requirements() if r.name not in ("python", "pip")]
    python = tmp_path / "empty" / "bin" / "python"
    venv.create(tmp_path / "empty", with_pip=True)
    command = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "--no-compile",
    ]
    done = subprocess.run([*command, *map(str, wanted)], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format", "json"], capture_output=True, text=True, check=True
    )
    versions = {canonicalize_name(entry["name"]): entry["version"] for entry in json.loads(listed.stdout)}
    assert {r.name for r in wanted} == set(RUNTIME)
    for requirement in wanted:
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])
    # the package runs on what was installed, not on the environment that runs this test
    code = "import sys; sys.path.insert(0, sys.argv[1]); from estream_lab.cli import main; main(['--version'])"
    root = str(Path(__file__).resolve().parents[2])
    ran = subprocess.run([python, "-c", code, root], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("estream "), sys.version
