"""Any order of submits, claims, crashes, losses and cancels, over fake and server.

The model knows what each job may be; the store is asked and checked after every rule.
"""

import asyncio
import itertools
import time
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)

from core.errors import Conflict
from core.job import Claim, Job, JobStatus, Progress
from storage.jobs.leases import Leases, Outcome
from storage.jobs.submit import Submitted
from tests.contract.conftest import ARCHIVE, SERVERS, Servers
from tests.contract.house import House, MemoryHouse, RedisHouse, id_of, message_of, new_job

SHORT_S = 0.004  #: a lease that is over when the reaper comes
MAX_ATTEMPTS = 3
MODELS = st.sampled_from(["m", "n"])
WORKERS = st.sampled_from(["w1", "w2"])
ENDS = st.sampled_from([JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.EXPIRED])


class JobMachine(RuleBasedStateMachine):
    """One store, its clients, and what they may believe."""

    jobs = Bundle("jobs")
    claims = Bundle("claims")
    kind = "memory"
    servers: Servers | None = None

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.house = self.runner.run(self._open())
        self.numbers = itertools.count()
        self.fences: dict[str, int] = {}
        self.ended: dict[str, JobStatus] = {}
        self.retries: Counter[str] = Counter()
        self.short: dict[str, bool] = {}
        self.leases: dict[tuple[str, bool], Leases] = {
            (worker, is_short): self.house.leases(worker, SHORT_S if is_short else 60.0)
            for worker in ("w1", "w2")
            for is_short in (True, False)
        }

    async def _open(self) -> House:
        return MemoryHouse() if self.servers is None else self.servers.open_house(self.kind)

    def teardown(self) -> None:
        try:
            self._settle()
        finally:
            self.runner.run(self.house.close())
            self.runner.close()

    @rule(target=jobs, model=MODELS, priority=st.sampled_from([0, 6]), is_late=st.booleans())
    def submit(self, model: str, priority: int, is_late: bool) -> str:
        job_id = f"j{next(self.numbers)}"
        deadline_s = 0.002 if is_late and priority else None
        job = new_job(
            job_id, model=model, priority=priority, deadline_s=deadline_s, hook=("completed",)
        )
        [answer] = self.runner.run(self.house.jobs.submit([job]))
        assert answer == Submitted(id=job_id, is_new=True)
        self.fences[job_id] = 0
        return job_id

    @rule(target=claims, model=MODELS, worker=WORKERS, is_short=st.booleans())
    def pop_and_claim(self, model: str, worker: str, is_short: bool) -> tuple[str, Claim | None]:
        job_id = id_of(self.house.pop(f"gen.{model}"))
        return worker, self._claim(job_id, worker, is_short) if job_id else None

    @rule(target=claims, job_id=jobs, worker=WORKERS, is_short=st.booleans())
    def claim_by_a_second_message(
        self, job_id: str, worker: str, is_short: bool
    ) -> tuple[str, Claim | None]:
        return worker, self._claim(job_id, worker, is_short)

    @rule(model=MODELS)
    def lose_a_message(self, model: str) -> None:
        self.house.pop(f"gen.{model}")

    @rule(claim=claims)
    def beat(self, claim: tuple[str, Claim | None]) -> None:
        worker, held = claim
        if held is not None:
            lost = self.leases[worker, False].beat({held.job.id: held.fence})
            assert lost == ([] if self._owns(worker, held) else [held.job.id])
            if not lost:
                self.short[held.job.id] = False

    @rule(claim=claims)
    def isolate(self, claim: tuple[str, Claim | None]) -> None:
        worker, held = claim
        if held is not None:
            owns = self._owns(worker, held)
            assert self.leases[worker, False].isolate(held.job.id, held.fence) == owns

    @rule(job_id=jobs)
    def retry(self, job_id: str) -> None:
        before = self._read(job_id)
        try:
            asked = self.house.jobs.retry(job_id, "t", message_of(job_id))
            after = self.runner.run(asked)
        except Conflict:
            is_over = before.status.is_terminal or not self.retries[job_id]
            assert is_over and not before.is_buried
            return
        if before.is_buried:
            self.retries[job_id] += 1
            del self.ended[job_id]
            assert (after.attempts, after.status) == (0, JobStatus.QUEUED)
        else:
            assert after == before and self.retries[job_id]

    @rule(claim=claims, step=st.integers(1, 4))
    def report(self, claim: tuple[str, Claim | None], step: int) -> None:
        worker, held = claim
        if held is not None:
            for is_short in (True, False):
                progress = {held.job.id: Progress(step=step, steps=4)}
                self.leases[worker, is_short].progress(progress)

    @rule(claim=claims, status=ENDS)
    def finish(self, claim: tuple[str, Claim | None], status: JobStatus) -> None:
        worker, held = claim
        if held is None:
            return
        before, owns = self._read(held.job.id), self._owns(worker, held)
        done = self.leases[worker, False].finish(held.job.id, held.fence, Outcome(status=status))
        after = self._read(held.job.id)
        if owns:
            assert done and after.status is status
            self._end(held.job.id, status)
        else:
            assert (after.status, after.finished_at) == (before.status, before.finished_at)
            assert not done or before.status is status

    @rule(claim=consumes(claims))
    def release(self, claim: tuple[str, Claim | None]) -> None:
        worker, held = claim
        if held is not None:
            owns = self._owns(worker, held)
            released = self.leases[worker, False].release({held.job.id: held.fence})
            assert released == int(owns)

    @rule(job_id=jobs)
    def cancel(self, job_id: str) -> None:
        before = self._read(job_id).status
        after = self.runner.run(self.house.jobs.cancel(job_id)).status
        assert after is (before if before.is_terminal else JobStatus.CANCELED)
        self._end(job_id, after)

    @rule()
    def reap(self) -> None:
        time.sleep(2 * SHORT_S)
        running = {j for j in self.fences if self._read(j).status is JobStatus.RUNNING}
        due = {j for j in running if self.short.get(j)}
        reaped = self.runner.run(self.house.sweeper(MAX_ATTEMPTS).reap())
        assert set(reaped.back) | set(reaped.ended) == due
        self._note_ends()

    @rule()
    def expire(self) -> None:
        self.runner.run(self.house.sweeper().expire())
        self._note_ends()

    @rule()
    def republish(self) -> None:
        self.runner.run(self.house.sweeper().republish(0.0))
        self._note_ends()

    @invariant()
    def nothing_contradicts_itself(self) -> None:
        assert self.house.problems() == []
        for job_id, status in self.ended.items():
            assert self._read(job_id).status is status, "terminal means terminal"
        for job_id, fence in self.fences.items():
            now = self._read(job_id).fence
            assert now >= fence, "fences only grow"
            self.fences[job_id] = now

    def _claim(self, job_id: str, worker: str, is_short: bool) -> Claim | None:
        before = self._read(job_id)
        claim = self.leases[worker, is_short].claim(job_id)
        if claim is None:
            after = self._read(job_id).status
            assert after is before.status or after is JobStatus.EXPIRED
            self._note_ends()
            return None
        assert before.status is JobStatus.QUEUED
        assert claim.fence > before.fence
        self.short[job_id] = is_short
        return claim

    def _owns(self, worker: str, claim: Claim) -> bool:
        job = self._read(claim.job.id)
        held = (job.status, job.fence, job.worker)
        return held == (JobStatus.RUNNING, claim.fence, worker)

    def _read(self, job_id: str) -> Job:
        return self.runner.run(self.house.jobs.get(job_id))

    def _end(self, job_id: str, status: JobStatus) -> None:
        assert self.ended.setdefault(job_id, status) is status

    def _note_ends(self) -> None:
        for job_id in self.fences:
            status = self._read(job_id).status
            if status.is_terminal:
                self._end(job_id, status)

    def _settle(self) -> None:
        """Whatever happened: upkeep and one living worker bring every job to one end."""
        last = self.house.leases("last", 60.0)
        sweeper = self.house.sweeper(MAX_ATTEMPTS)
        time.sleep(2 * SHORT_S)
        for (worker, _), leases in self.leases.items():
            for job_id in self.fences:
                job = self._read(job_id)
                if job.status is JobStatus.RUNNING and job.worker == worker:
                    leases.release({job_id: job.fence})
        # A job with two messages hides, until both are taken, that another has none.
        for model in ("m", "n") * 4:
            self.runner.run(sweeper.republish(0.0))
            while (popped := id_of(self.house.pop(f"gen.{model}"))) is not None:
                claim = last.claim(popped)
                if claim is not None:
                    assert last.finish(popped, claim.fence, Outcome(status=JobStatus.SUCCEEDED))
        self._note_ends()
        assert self.ended.keys() == self.fences.keys(), "every accepted job has ended"
        stats = self.runner.run(self.house.stats())
        lives = len(self.fences) + self.retries.total()
        assert stats.get("finished", 0) == lives, "each of them once, and once for each retry"
        posted = self.runner.run(self.house.outbox.due(limit=10_000))
        assert sorted(d.job_id for d in posted) == sorted(self.fences), "each told once"
        assert self.house.problems() == []


def run(machine: type[JobMachine], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.hypothesis
def test_every_accepted_job_ends_exactly_once_on_the_fake() -> None:
    run(JobMachine, 60)


@pytest.mark.hypothesis
@pytest.mark.parametrize(
    "name",
    [SERVERS[0], *(pytest.param(each, marks=pytest.mark.long) for each in (*SERVERS[1:], ARCHIVE))],
)
def test_every_accepted_job_ends_exactly_once_on_a_server(name: str, servers: Servers) -> None:
    run(type("ServerMachine", (JobMachine,), {"kind": name, "servers": servers}), 40)


def test_the_check_itself_sees_a_contradiction(servers: Servers) -> None:
    runner = asyncio.Runner()

    async def spoil() -> list[str]:
        house = servers.open("wheel")
        assert isinstance(house, RedisHouse)
        await house.jobs.submit([new_job("j1"), new_job("j2")])
        house.sync.hset("job:j1", "status", "running")
        house.sync.hset("job:j2", "finishes", "1")
        house.sync.zadd("leases", {"nobody": 1.0})
        problems = house.problems()
        await house.close()
        return problems

    problems = runner.run(spoil())
    runner.close()
    assert len(problems) == 3, problems
