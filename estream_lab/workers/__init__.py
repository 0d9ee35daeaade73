"""Daemon threads, waits with a deadline, and work that signals don't reach."""

from estream_lab.workers.pool import WorkerDied as WorkerDied
from estream_lab.workers.pool import Workers as Workers
from estream_lab.workers.shelter import LISTEN_SECONDS as LISTEN_SECONDS
from estream_lab.workers.shelter import SETTLE_SECONDS as SETTLE_SECONDS
from estream_lab.workers.shelter import Stopped as Stopped
from estream_lab.workers.shelter import check_stopped as check_stopped
from estream_lab.workers.shelter import sheltered as sheltered
from estream_lab.workers.waiting import Attendant as Attendant
from estream_lab.workers.waiting import answered as answered
from estream_lab.workers.waiting import wait_for as wait_for
