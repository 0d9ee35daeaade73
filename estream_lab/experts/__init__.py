"""Expert virtualization: records, arena, residency, slot compaction, schedule and the shared expert graph."""

from estream_lab.experts.arena import Arena as Arena
from estream_lab.experts.binding import Binder as Binder
from estream_lab.experts.binding import Binding as Binding
from estream_lab.experts.binding import GroupedRoutes as GroupedRoutes
from estream_lab.experts.binding import compact as compact
from estream_lab.experts.binding import group_routes as group_routes
from estream_lab.experts.residency import ResidencyError as ResidencyError
from estream_lab.experts.residency import ResidencyTable as ResidencyTable
from estream_lab.experts.residency import SlotState as SlotState
from estream_lab.experts.shape import PAGE_BYTES as PAGE_BYTES
from estream_lab.experts.shape import ExpertShape as ExpertShape
from estream_lab.experts.shape import RecordClass as RecordClass
