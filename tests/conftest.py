"""What every test run shares: the lanes' strictness, and the same hypothesis examples in CI each time."""

import os
import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ["strict", "pytester"]

# No deadline: the first example may compile a kernel. CI draws the same examples each run and prints how to replay one.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# A script in the background hands an ignored SIGINT down to all it starts; what ^C does is tested with real processes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
