"""Cells: a large world divided and put together again."""

import numpy as np

from simulator.cells import divided, joined
from simulator.run import simulate
from simulator.world import Outage
from tests.unit.simulator.worlds import TYPE, a_world


def test_every_worker_and_every_request_is_in_one_cell():
    world = a_world(np.arange(11.0), workers=5, outages=(Outage(begin_s=0, end_s=1, workers=3),))
    parts = divided(world, 2)
    assert [part.fleet[TYPE] for part in parts] == [3, 2]
    assert sorted(at for part in parts for at in part.workload.at_s) == list(range(11))
    assert [part.outages[0].workers for part in parts] == [2, 1]


def test_one_cell_is_the_whole():
    world = a_world(np.arange(0.0, 30.0, 2.0), workers=2)
    whole = simulate(world, "clipper-ht")
    cells = joined(world, [simulate(part, "clipper-ht") for part in divided(world, 1)])
    assert cells.figures() == whole.figures()


def test_jobs_of_all_cells_are_counted():
    world = a_world(np.arange(0.0, 30.0, 1.0), workers=4)
    cells = joined(world, [simulate(part, "clipper-ht") for part in divided(world, 2)])
    assert cells.figures()["jobs"] == 30
    assert cells.series.demand.sum() == 30
    assert cells.up_s[TYPE] == 2 * 29.0 + 2 * 30.0
