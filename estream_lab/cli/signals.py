"""^C and SIGTERM: either stops a command with one sentence, and a process that can't stop in time ends all the same.

Signals are the program's business, not the library's: only the command line sets handlers.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

GRACE_SECONDS = 1.0
TELL_SECONDS = 0.25  # for the one sentence, which whoever should read it may not take
NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Stops:
    """While it is entered, ^C and SIGTERM raise KeyboardInterrupt in the main thread, and which one it was is kept.

    Elsewhere than in the main thread, and for signals that the program was started to ignore, nothing changes.

    Args:
        last_resort: the process ends by itself if the exception hasn't ended it after a second. It may be out of reach:
            in a compiler's call of seconds, or in a read from a disk that doesn't answer. What it leaves is what a kill
            at that moment leaves: files are whole, and work that can be resumed is kept.

    Attributes:
        tell: says the one sentence, given what is kept, or nothing where only the files can tell.
    """

    def __init__(self, *, last_resort: bool = False) -> None:
        self._last_resort = last_resort
        self._before: dict[int, Any] = {}
        self._told, self._said = threading.Lock(), threading.Event()
        self._number = 0
        self._hook: Callable[[sys.UnraisableHookArgs], object] | None = None
        self.tell: Callable[[str], object] = lambda kept: None

    @property
    def number(self) -> int:
        """The first signal that came, 0 for none."""
        return self._number

    @property
    def status(self) -> int:
        """The exit status that says so."""
        return 128 + (self._number or signal.SIGINT)

    def say(self, kept: str) -> None:
        """Say the one sentence, unless somebody has begun to: it is said once."""
        if self._told.acquire(blocking=False):
            self.tell(kept)
            self._said.set()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in NUMBERS:
                if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                    self._before[number] = signal.signal(number, self._raise)
            if self._last_resort and self._before:
                self._watch()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leaving = self._last_resort and self._number  # the next one would kill it while Python closes, sentence and all
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if leaving else handler)
        if self._hook is not None:
            sys.unraisablehook = self._hook

    def _raise(self, number: int, frame: FrameType | None) -> None:
        first, self._number = not self._number, self._number or number
        if first or not self._last_resort:  # it is on its way out, and the last resort sees that it gets there
            raise KeyboardInterrupt

    def _watch(self) -> None:
        """Hear of a signal at once, whatever the main thread is at: Python tells it only between two of its steps."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._hook, sys.unraisablehook = sys.unraisablehook, self._lost
        threading.Thread(target=self._end, args=(reader,), name="estream-last-resort", daemon=True).start()

    def _lost(self, lost: "sys.UnraisableHookArgs") -> None:
        """Python drops what is raised in a destructor or in a compiler's callback; it would print it by the sentence.

        The last resort ends the process then.
        """
        if self._hook is not None and not (self._number and lost.exc_type is KeyboardInterrupt):
            self._hook(lost)

    def _end(self, reader: int) -> None:
        while (number := os.read(reader, 1)[0]) not in self._before:
            pass
        time.sleep(GRACE_SECONDS)
        threading.Thread(target=self.say, args=("",), daemon=True).start()
        self._said.wait(TELL_SECONDS)
        os._exit(128 + number)
