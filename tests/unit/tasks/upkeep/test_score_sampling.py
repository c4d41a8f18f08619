import pytest

from storage.jobs.sweeps import Finished
from tasks.upkeep.score_sampling import AT_ONCE, Sampling, is_sampled


class Rounds:
    """Jobs that end between rounds, and what is sent to be scored."""

    def __init__(self, share=1.0):
        self.ended, self.sent, self.waiting = [Finished(id="old", at=1.0)], [], 0
        self.sampling = Sampling(share, find=self.find, waiting=self.wait, send=self.send)

    async def find(self, since, limit):
        late = [job for job in reversed(self.ended) if job.at > since]
        return late[:limit]

    async def wait(self):
        return self.waiting

    def send(self, job_ids):
        self.sent.append(list(job_ids))

    async def end(self, *names):
        at = self.ended[-1].at
        self.ended += [Finished(id=name, at=at + i) for i, name in enumerate(names, 1)]
        await self.sampling.run()


async def a_service(**options):
    rounds = Rounds(**options)
    await rounds.sampling.run()
    return rounds


async def test_what_ended_before_the_start_is_not_scored():
    rounds = await a_service()
    await rounds.sampling.run()
    assert rounds.sent == []


async def test_each_job_is_sent_once():
    rounds = await a_service()
    await rounds.end("a", "b")
    await rounds.end("c")
    await rounds.end()
    assert rounds.sent == [["b", "a"], ["c"]]


async def test_nothing_is_sent_while_something_waits_and_what_ended_meanwhile_is_let_go():
    rounds = await a_service()
    rounds.waiting = 1
    await rounds.end("a")
    rounds.waiting = 0
    await rounds.end("b")
    assert rounds.sent == [["b"]]


async def test_no_more_are_sent_than_one_task_scores():
    rounds = await a_service()
    await rounds.end(*(f"j{i}" for i in range(5 * AT_ONCE)))
    assert [len(some) for some in rounds.sent] == [AT_ONCE]


async def test_a_share_of_none_never_looks():
    rounds = await a_service(share=0.0)
    rounds.ended.clear()
    await rounds.sampling.run()
    assert rounds.sent == []


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_about_the_share_is_sampled_and_always_the_same(share):
    names = [f"job-{i}" for i in range(4000)]
    chosen = [name for name in names if is_sampled(name, share)]
    assert len(chosen) / len(names) == pytest.approx(share, abs=0.02)
    assert all(is_sampled(name, share) for name in chosen)
    assert all(is_sampled(name, 1.0) for name in names)
