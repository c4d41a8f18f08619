"""What is a block expected to take?"""

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from catalog.masking.costs import BlockShape, CostLine, MaskingCosts, operations
from profiling.block_times import measure_load
from worker.masking.cache import RecordingCache
from worker.masking.quantised import Quantised

SHAPE = BlockShape(tokens=64, channels=8, weights=1000)
SECONDS = st.floats(1e-6, 1.0)


@given(start=SECONDS, first=SECONDS, second=SECONDS)
def test_a_line_is_found_again(start, first, second):
    work = [(float(x), float(y)) for x in range(4) for y in (0, 3, 5)]
    line = CostLine.fit(work, [start + first * x + second * y for x, y in work])
    assert line.r2 == approx(1.0)
    assert line.seconds(7.0, 2.0) == approx(start + 7 * first + 2 * second)


def test_no_line_promises_less_than_no_time():
    assert CostLine(start_s=-1.0, per_unit_s=(0.1,), r2=1.0).seconds(2.0) == 0.0


@given(computed=st.integers(0, 63), rows=st.integers(1, 8))
def test_more_tokens_are_more_work_and_rows_share_none(computed, rows):
    fewer, more = operations(SHAPE, computed, rows), operations(SHAPE, computed + 1, rows)
    assert all(a < b for a, b in zip(fewer, more, strict=True))
    assert operations(SHAPE, computed, rows) == tuple(
        rows * part for part in operations(SHAPE, computed, 1)
    )


def test_a_block_costs_what_its_masked_tokens_cost():
    line = CostLine(start_s=0.0, per_unit_s=(1e-6, 1e-6), r2=1.0)
    load = CostLine(start_s=0.0, per_unit_s=(1e-3,), r2=1.0)
    costs = MaskingCosts(
        compute=line, load=load, copy=CostLine(start_s=0.0, per_unit_s=(0.0,), r2=1.0)
    )
    times = costs.times(SHAPE, 7, 2, is_in_memory=False)
    assert times.cached < times.full
    assert times.load == approx(64 * 12 * 1e-3)
    assert costs.times(SHAPE, 7, 2, is_in_memory=True).load == 0.0


def test_keys_that_are_kept_load_longer_and_spare_computing_them():
    line = CostLine(start_s=0.0, per_unit_s=(1e-6, 1e-6), r2=1.0)
    load = CostLine(start_s=0.0, per_unit_s=(1e-3,), r2=1.0)
    costs = MaskingCosts(compute=line, load=load, copy=load)
    outputs = costs.times(SHAPE, 7, 2, is_in_memory=False)
    keys = costs.times(replace(SHAPE, keys=2), 7, 2, is_in_memory=False)
    assert keys.load == approx(2 * outputs.load)
    assert keys.full == outputs.full
    assert keys.cached == approx(outputs.cached - 2 * 2 * (64 - 7) * 2 * 8**2 * 1e-6)


def test_loads_are_timed_by_runs_of_blocks(tmp_path):
    blocks = {name: Quantised.of(torch.ones(4096, 16)) for name in ("a", "b", "c")}
    [path] = RecordingCache(tmp_path, 2**30).save("step", {0: blocks}).values()
    line = measure_load(path, torch.device("cpu"), rounds=3)
    assert line.seconds(2**24) > line.seconds(2**10) >= 0.0
