"""A browser whose every request and every complaint is written down."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page, sync_playwright

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # what would leave the machine fails
]
HERE = {"127.0.0.1", "localhost"}


@dataclass
class Watch:
    """What a browser asked for and what went wrong in it."""

    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def attach(self, page: Page) -> None:
        """Write down what `page` asks for and complains of."""
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("websocket", lambda socket: self.requests.append(socket.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)

    def abroad(self) -> list[str]:
        """The requests that would leave this machine."""
        local = ("data", "blob", "file")
        return [
            url for url in self.requests if urlsplit(url).scheme not in local and urlsplit(url).hostname not in HERE
        ]


def chromium() -> str:
    """The installed browser; the tests fail without one, for a skipped test proves nothing."""
    found = os.environ.get("ESTREAM_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        raise FileNotFoundError("no Chromium here: apt-get install chromium, or name one in ESTREAM_CHROMIUM")
    return found


@contextmanager
def watched_browser(profile: Path, scheme: str = "light") -> Iterator[tuple[BrowserContext, Page, Watch]]:
    """A new browser with a new profile, its page, and what is written down about them."""
    watch = Watch()
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(profile),
            executable_path=chromium(),
            args=ARGUMENTS,
            viewport={"width": 1280, "height": 1000},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        try:
            page = context.pages[0]
            page.set_default_timeout(180_000)  # a busy machine is no fault
            watch.attach(page)
            context.on("page", watch.attach)
            yield context, page, watch
        finally:
            context.close()
