"""The ``estream`` command."""

import sys

try:
    from estream_lab.cli.main import main as main
except KeyboardInterrupt:  # loading the compiler takes seconds, and ^C may come in them
    print("estream: stopped: no file was changed", file=sys.stderr)
    raise SystemExit(130) from None
