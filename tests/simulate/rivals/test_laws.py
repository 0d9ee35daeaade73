"""What holds of every contestant: the same routes, no work or bytes lost, and never over the budget unmarked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.simulate.rivals import (
    ChunkPadding,
    Contest,
    Contestant,
    Contexts,
    EStream,
    NpuMoe,
    OnDemand,
    Outcome,
    Refused,
    Resident,
    enter,
)
from estream_lab.simulate.soc import Settings, service_times_of

from .contests import contests, entries, settings_of, streaming

Entry = tuple[Contest, Contestant]
ONE = Settings(1, 1, 1)


@given(entries())
def test_all_see_the_same_routes_and_compute_at_least_what_they_keep(entry: Entry) -> None:
    contest, contestant = entry
    rows = contestant.run(contest).rows
    assert rows.routes == contest.routed == sum(len(routes) for routes in contest.routes)
    assert rows.kept + rows.dropped == rows.routes and rows.dropped >= 0
    assert rows.rows >= rows.kept
    if not isinstance(contestant, NpuMoe):
        assert rows.dropped == 0 and rows.rows >= contest.routed


@given(entries())
def test_whoever_holds_no_experts_reads_at_least_those_with_routes(entry: Entry) -> None:
    contest, contestant = entry
    found = contestant.run(contest)
    if isinstance(contestant, NpuMoe | Resident):
        assert (found.bytes_read, found.preload_bytes) == (0, contest.store_bytes)
        assert found.peak_bytes >= contest.store_bytes
    else:
        assert contest.needed_bytes <= found.bytes_read <= contest.store_bytes
        assert found.preload_bytes == 0


@given(entries())
def test_the_budget_is_kept_or_the_outcome_says_so(entry: Entry) -> None:
    contest, contestant = entry
    shown, admitted = enter(contestant, contest, over_budget=True), enter(contestant, contest)
    assert isinstance(shown, Outcome)
    assert shown.over_budget == (shown.peak_bytes > contest.budget_bytes) == isinstance(admitted, Refused)
    if isinstance(admitted, Refused):
        assert f"needs {shown.peak_bytes} bytes" in admitted.sentence
        assert f"{shown.peak_bytes - contest.budget_bytes} more than the budget" in admitted.sentence
    else:
        assert admitted == shown


@given(entries())
def test_the_same_entry_gives_the_same_outcome(entry: Entry) -> None:
    contest, contestant = entry
    assert contestant.run(contest) == contestant.run(contest)


@given(st.data())
def test_no_work_is_lost(data: st.DataObject) -> None:
    """Non-expert work and all computed rows take their time one after the other, so no request is shorter; with all
    experts resident, and no overhead, it is just that."""
    contest = data.draw(contests())
    contestant = data.draw(st.one_of(streaming(contest), st.just(Resident())))
    found = contestant.run(contest)
    times = service_times_of(contest.device, contest.workload, 1, 1)
    row = contest.workload.model.route_flops / contest.device["expert_rate"]
    least = (times.lead_ns + sum(layer.non_expert_ns for layer in times.passes)) / 1e9 + found.rows.rows * row
    rounding = 0.501e-9 * contest.workload.loads.size  # half a ns of each, and what floats lose
    assert found.seconds >= least - rounding
    assert found.seconds >= Resident().run(contest).seconds - rounding
    if isinstance(contestant, Resident):
        overhead = contest.device["group_overhead"] * contest.workload.model.layers / 1e9
        assert found.seconds <= least + overhead + rounding + 1e-9 * contest.workload.model.layers


@given(st.data())
def test_reading_ahead_never_takes_longer_where_every_expert_has_routes(data: st.DataObject) -> None:
    """With one queue place: two reads at a time share a bandwidth, and the first of them comes later."""
    contest = data.draw(contests(everywhere=True))
    drawn = data.draw(settings_of(contest))
    early, after, on_demand = (
        EStream(Settings(drawn.group_size, drawn.banks, 1, name)).run(contest).seconds
        for name in ("early", "after-routing", "on-demand")
    )
    rounding = 1e-9 * contest.workload.loads.size  # ends of reads are rounded up
    assert early <= after + rounding
    assert after <= on_demand + rounding


@given(contests())
def test_creating_contexts_costs_their_set_up_and_nothing_else(contest: Contest) -> None:
    plain, free, dear = (each.run(contest) for each in (OnDemand(), Contexts(setup_seconds=0), Contexts()))
    reads = sum(1 for loads in contest.workload.loads for load in loads if load)
    assert abs(free.seconds - plain.seconds) <= 2e-9 * reads + 1e-12  # the simulator rounds up the shortest reads
    assert dear.seconds == pytest.approx(free.seconds + reads * Contexts().setup_seconds)
    assert free.bytes_read == plain.bytes_read


@given(st.data())
def test_padding_to_one_row_is_none_and_prompt_chunks_pad_more(data: st.DataObject) -> None:
    contest = data.draw(contests())
    settings, rows = data.draw(settings_of(contest)), data.draw(st.integers(1, 6))
    exact, one = EStream(settings).run(contest), ChunkPadding(settings, rows=1).run(contest)
    assert (one.seconds, one.rows, one.bytes_read) == (exact.seconds, exact.rows, exact.bytes_read)
    whole = ChunkPadding(settings, rows=rows).run(contest).rows.rows
    chunked = ChunkPadding(settings, rows=rows, per_prompt_chunk=True).run(contest).rows.rows
    assert contest.routed <= whole <= chunked
    assert whole % rows == chunked % rows == 0
