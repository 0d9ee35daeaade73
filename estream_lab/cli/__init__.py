"""The ``estream`` command."""

from estream_lab.cli.main import main as main
