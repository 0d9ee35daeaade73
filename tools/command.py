"""How the tools end: one sentence where something is wrong or they are stopped, no traceback."""

import signal
import sys
from collections.abc import Callable

from estream_lab.errors import EStreamError


def ended(main: Callable[[], int | None], left: str = "no file was changed") -> int:
    """The exit status of `main`: 1 for a user's error, told as it is; 130 and what is `left` where ^C stops it."""
    # A script in the background hands an ignored SIGINT down to all it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return main() or 0
    except EStreamError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"stopped: {left}", file=sys.stderr)
        return 130
