"""Print why kt-kernel can't be installed for this Python, or nothing where it can.

Run by the Python of .venv-peers: pip's own message is the same for a platform without a wheel, an index that can't be
reached, and one that lacks the release; only the first of them is no failure.
"""

import platform
import sys

from packaging.tags import parse_tag, sys_tags

# of the release in peers/kt-kernel.lock, one for each hash there
WHEELS = ("cp311-cp311-manylinux_2_35_x86_64", "cp312-cp312-manylinux_2_35_x86_64")


def reason(supported):
    """A sentence's end, or nothing.

    Args:
        supported: tags of this interpreter.
    """
    wanted = frozenset().union(*map(parse_tag, WHEELS))
    if not wanted.isdisjoint(supported):
        return ""
    here = f"Python {platform.python_version()} on {platform.system()} {platform.machine()} ({platform.libc_ver()[1]})"
    return f"kt-kernel comes as {' and '.join(WHEELS)}, neither of which {here} takes"


if __name__ == "__main__":
    sys.stdout.write(reason(sys_tags()))
