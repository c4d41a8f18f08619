from storage.jobs.sweeps import Reaped
from tasks.upkeep.recovery import CALM_S, GRACE_S, PASS_S, REBUILD_S, Recovery


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


class Sleeper:
    """A clock that goes on while somebody sleeps, by more than that while the process is frozen."""

    def __init__(self):
        self.now, self.frozen_s = 100.0, 0.0

    async def sleep(self, seconds):
        self.now += seconds + self.frozen_s


async def test_a_lapsed_lease_is_reaped_where_every_look_comes_late():
    time, sweeper = Sleeper(), Sweeper(late=1)
    recovery = Recovery(sweeper, clock=lambda: time.now, sleep=time.sleep)
    for _ in range(6):
        await recovery.reap()
        time.now += 6.0
    assert not sweeper.late


async def test_a_look_that_waits_for_the_grace_takes_nothing_if_it_was_frozen_meanwhile():
    time, sweeper = Sleeper(), Sweeper(late=1)
    recovery = Recovery(sweeper, clock=lambda: time.now, sleep=time.sleep)
    await recovery.reap()
    time.now, time.frozen_s = time.now + 6.0, 20.0
    await recovery.reap()
    assert sweeper.late, "no worker could renew while this host stood still"
    time.now, time.frozen_s = time.now + 1.0, 0.0
    await recovery.reap()
    assert not sweeper.late


class Records:
    """Records that are looked at, and how many entries of indexes lack."""

    def __init__(self):
        self.shares, self.missing = [], 0

    async def rebuild(self, share):
        self.shares.append(share)
        missing, self.missing = self.missing, 0
        return missing


async def test_all_records_are_looked_at_where_one_was_missing_in_an_index_and_else_a_few():
    now, records = [100.0], Records()
    recovery = Recovery(records, clock=lambda: now[0])

    async def looks(seconds):
        for _ in range(int(seconds / REBUILD_S)):
            await recovery.rebuild()
            now[0] += REBUILD_S
        shares, records.shares = records.shares, []
        return shares

    assert await looks(60.0) == [0.0] * round(60.0 / CALM_S)
    records.missing = 1
    await looks(CALM_S)
    assert sum(await looks(1.5 * PASS_S)) >= 1.0, "a whole pass"
    await looks(PASS_S)
    assert set(await looks(PASS_S)) == {0.0}
