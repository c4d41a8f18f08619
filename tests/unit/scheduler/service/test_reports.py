from core.boards.fleet import QueueDepth, Worker
from core.errors import StoreUnavailable
from scheduler.service.reports import Reports
from tests.unit.scheduler.fakes import FakeFleet, a_worker

Heard = tuple[list[Worker], list[QueueDepth], float]


class BrokenFleet(FakeFleet):
    def __init__(self, *workers: Worker) -> None:
        super().__init__(*workers)
        self.error: Exception | None = None

    async def workers(self) -> list[Worker]:
        if self.error is not None:
            raise self.error
        return list(self.reports)


async def test_what_is_reported_is_passed_on_and_grows_stale_while_nobody_can_read_it() -> None:
    fleet, now = BrokenFleet(a_worker("w@h", "m")), [0.0]
    fleet.waiting = [QueueDepth(queue="gen.m", waiting=2, oldest_s=1.0)]
    heard: list[Heard] = []
    reports = Reports(
        fleet, lambda w, d, at: heard.append((list(w), list(d), at)), clock=lambda: now[0]
    )
    await reports.look()
    assert heard == [(list(fleet.reports), list(fleet.waiting), 0.0)]
    for error in (StoreUnavailable("away"), KeyError("whatever")):
        fleet.error, now[0] = error, 10.0
        await reports.look()
    assert len(heard) == 1
