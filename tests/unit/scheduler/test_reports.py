from core.errors import StoreUnavailable
from core.image_work import ImageWork
from scheduler.batches import Batches
from scheduler.burden import StepCosts
from scheduler.reports import Reports
from tests.unit.scheduler.twins import a_worker


class Fleet:
    def __init__(self):
        self.error = None

    async def __call__(self):
        if self.error is not None:
            raise self.error
        return [a_worker("w@h", "m")]


async def test_what_workers_report_is_passed_on_and_grows_stale_while_nobody_can_read_it():
    costs = StepCosts(start_s=0.0, row_s=1.0, pixels=1)
    batches, fleet, now = Batches(lambda model, device: costs, stale_s=4.0), Fleet(), [0.0]
    reports = Reports(batches, fleet, clock=lambda: now[0])
    work = ImageWork(job="j", model="m", steps=1, rows=2, pixels=1)
    await reports.look()
    assert batches.offers("gen.m", [work], 0.0) == []  # it serves no queue of its own
    assert list(batches._batches) == ["w@h"]
    for error in (StoreUnavailable("away"), KeyError("whatever")):
        fleet.error, now[0] = error, 10.0
        await reports.look()
    assert batches._batches["w@h"].seen_at == 0.0
