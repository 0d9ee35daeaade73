"""A real JupyterLab of this environment, with settings of its own and nothing to say to the network."""

import json
import os
import queue
import re
import secrets
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
STARTUP_SECONDS = 120


class Lab:
    """JupyterLab serving `root`; its configuration, workspaces and runtime files lie in `home`."""

    def __init__(self, root: Path, home: Path) -> None:
        self.token = secrets.token_hex(16)
        for name, values in SETTINGS.items():
            path = home / "settings" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values))
        folders = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "IPYTHONDIR": "ipython",
        }
        environment = {**os.environ, **{name: str(home / folder) for name, folder in folders.items()}}
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"]
        command += [
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.port=0",
            f"--IdentityProvider.token={self.token}",
            f"--ServerApp.root_dir={root}",
            "--LabApp.news_url=",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--LabApp.extension_manager=readonly",
        ]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.log: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._drain)
        self._reader.start()
        try:
            self.url = self._wait_for_url()
        except BaseException:
            self.__exit__()
            raise

    def _drain(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.log.append(line)
                self._lines.put(line)
        self._lines.put(None)

    def _wait_for_url(self) -> str:
        while True:
            line = self._lines.get(timeout=STARTUP_SECONDS)
            if line is None:
                raise RuntimeError("JupyterLab ended at its start:\n" + "".join(self.log))
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                return found[0]

    def page(self, path: str) -> str:
        """The address of a file in JupyterLab, in a workspace of its own."""
        return f"{self.url}/lab/tree/{path}?token={self.token}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
