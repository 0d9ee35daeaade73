"""The records of a binding, one a row, with what each reads and writes."""

import plotly.graph_objects as go

from estream_lab.experts.binding import Binding
from estream_lab.experts.record_addresses import RecordAddresses
from estream_lab.trace import Provenance
from estream_lab.viz.figures.compaction import slot_colours
from estream_lab.viz.figures.tables import table
from estream_lab.viz.figures.theme import provenance_line


def records_table(binding: Binding, addresses: RecordAddresses, provenance: Provenance) -> go.Figure:
    """Π with its addresses: slot by slot, records in route order; rows are coloured by slot."""
    colours = slot_colours(addresses.slot, binding)
    columns = {
        "record": [str(number) for number in range(len(binding))],
        "slot s": [str(slot) for slot in addresses.slot],
        "token t": [str(token) for token in binding.token],
        "route i": [str(route) for route in binding.route],
        "α": [f"{weight:.2f}" for weight in binding.weight],
        "reads X at": [f"p_X + {at:,}" for at in addresses.x.tolist()],
        "gate at": [f"{at:,}" for at in addresses.gate.tolist()],
        "up at": [f"{at:,}" for at in addresses.up.tolist()],
        "down at": [f"{at:,}" for at in addresses.down.tolist()],
        "adds to Y at": [f"p_Y + {at:,}" for at in addresses.y.tolist()],
    }
    widths = [66, 60, 70, 66, 52, 100, 86, 86, 86, 108]
    title = f"{len(binding)} records and their addresses, in bytes"
    return table(columns, widths, title, provenance_line(provenance), {"slot s": colours})
