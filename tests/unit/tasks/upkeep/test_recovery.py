from storage.jobs.sweeps import Reaped
from tasks.upkeep.recovery import GRACE_S, Recovery


class Sweeper:
    """A number of leases that have run out."""

    def __init__(self, late):
        self.late = late

    async def reap(self):
        back, self.late = ("j",) * self.late, 0
        return Reaped(back=back, ended=())


async def test_after_an_outage_workers_may_beat_before_their_jobs_are_taken():
    now, sweeper = [100.0], Sweeper(late=1)
    recovery = Recovery(sweeper, clock=lambda: now[0])
    await recovery.reap()
    assert sweeper.late, "a leader who has just come does not know what happened before"
    for _ in range(4):
        now[0] += 1.0
        await recovery.reap()
    assert not sweeper.late
    sweeper.late = 1
    now[0] += 20.0
    await recovery.reap()
    assert sweeper.late, "for twenty seconds no lease could be renewed"
    now[0] += GRACE_S
    await recovery.reap()
    assert not sweeper.late
