"""What is told of jobs that a store refuses, in one trip and in several."""

from collections.abc import Sequence

import pytest
import redis

from core.errors import StoreRefused, StoreUnavailable
from storage.jobs.submit import GROUP, submit
from tests.rig import new_job

WIDTH = 22  #: words of one job, after the four of the call


class FillingUp:
    """A server that takes so many scripts, and then has no memory left."""

    def __init__(self, takes: int) -> None:
        self._takes = takes

    async def execute_command(self, *words: object) -> Sequence[object]:
        if not self._takes:
            raise redis.OutOfMemoryError("used memory > 'maxmemory'")
        self._takes -= 1
        return [[1, str(job_id).encode(), 0] for job_id in words[4::WIDTH]]


@pytest.mark.parametrize(("takes", "is_proof"), [(0, True), (1, False)])
async def test_jobs_are_refused_as_such_only_if_none_of_them_is_stored(
    takes: int, is_proof: bool
) -> None:
    jobs = [new_job() for _ in range(GROUP + 1)]
    with pytest.raises(StoreUnavailable) as caught:
        await submit(FillingUp(takes), jobs, max_queue=1000)  # type: ignore[arg-type]
    assert isinstance(caught.value, StoreRefused) == is_proof
