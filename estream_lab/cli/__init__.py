"""The ``estream`` command."""

import sys

from estream_lab.cli.signals import Stops

_stops = Stops()
try:
    with _stops:
        from estream_lab.cli.main import main as main
except KeyboardInterrupt:  # loading the compiler takes seconds, and ^C may come in them
    print("estream: stopped: no file was changed", file=sys.stderr)
    raise SystemExit(_stops.status) from None
