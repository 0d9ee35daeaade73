"""``python -m estream_lab``: the ``estream`` command."""

import sys

from estream_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
