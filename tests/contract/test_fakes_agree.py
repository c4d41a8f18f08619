"""Whatever is done to both, fake and server charge, suspect and bury the same jobs."""

import asyncio
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import Conflict
from core.job import JobStatus
from storage.jobs.leases import Leases, Outcome
from tests.contract.conftest import SERVERS, Servers
from tests.contract.house import House, MemoryHouse, message_of, new_job

SHORT_S, LONG_S = 0.003, 60.0
MAX_ATTEMPTS = 2
JOBS, WORKERS = ("a", "b", "c", "d"), ("w1", "w2")

#: What is done, to which job, by which worker; the leases of one claim in three last.
ACTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["claim", "claim", "claim", "isolate", "finish", "release", "die", "die", "retry"]
        ),
        st.sampled_from(JOBS),
        st.sampled_from(WORKERS),
        st.sampled_from([True, True, False]),
    ),
    min_size=4,
    max_size=30,
)


class Side:
    """One store and the claims that were made of it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.fences: dict[tuple[str, str], int] = {}
        self.leases: dict[tuple[str, bool], Leases] = {
            (worker, is_short): house.leases(worker, SHORT_S if is_short else LONG_S)
            for worker in WORKERS
            for is_short in (True, False)
        }

    async def act(self, what: str, job_id: str, worker: str, is_short: bool) -> object:
        """Do one thing; return what was answered, as far as both sides must agree on it."""
        leases = self.leases[worker, is_short]
        fence = self.fences.get((job_id, worker), 0)
        if what == "claim":
            claim = leases.claim(job_id)
            if claim is not None:
                self.fences[job_id, worker] = claim.fence
            return claim is not None and (claim.job.attempts, claim.job.is_suspect)
        if what == "isolate":
            return leases.isolate(job_id, fence)
        if what == "finish":
            return leases.finish(job_id, fence, Outcome(status=JobStatus.SUCCEEDED))
        if what == "release":
            return leases.release({job_id: fence})
        if what == "retry":
            return await self._retry(job_id)
        reaped = await self.house.sweeper(MAX_ATTEMPTS).reap()
        return sorted(reaped.back), sorted(reaped.ended)

    async def _retry(self, job_id: str) -> str:
        try:
            return (await self.house.jobs.retry(job_id, "t", message_of(job_id))).status
        except Conflict as error:
            return str(error)

    async def state(self) -> object:
        jobs = [await self.house.jobs.get(job_id) for job_id in JOBS]
        listed = await self.house.jobs.list("t", is_buried=True)
        return [(j.status, j.attempts, j.is_suspect, j.is_buried) for j in jobs], sorted(
            job.id for job in listed.jobs
        )


async def compare(servers: Servers, name: str, acts: list[tuple[str, str, str, bool]]) -> None:
    sides = [Side(MemoryHouse()), Side(servers.open(name))]
    for side in sides:
        await side.house.jobs.submit([new_job(job_id) for job_id in JOBS])
    for act in acts:
        if act[0] == "die":
            time.sleep(2 * SHORT_S)
        fake, server = [(await side.act(*act), await side.state()) for side in sides]
        assert fake == server, act
    for side in sides:
        assert side.house.problems() == []
        await side.house.close()


@pytest.mark.parametrize("name", SERVERS[:1])
def test_both_charge_suspect_and_bury_the_same_jobs(name: str, servers: Servers) -> None:
    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(ACTS)
    def check(acts: list[tuple[str, str, str, bool]]) -> None:
        asyncio.run(compare(servers, name, acts))

    check()
