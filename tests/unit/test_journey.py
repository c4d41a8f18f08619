from pathlib import Path

from tests.journey import travel

MOST = 65  #: files today; the bar is 25


async def test_a_job_passes_no_more_files_than_it_did(tmp_path: Path) -> None:
    passed = [str(path) for path in await travel(tmp_path)]
    assert len(passed) <= MOST, passed
    way = ["api/routes/submit.py", "scheduler/placement/placer.py", "tasks/submit.py"]
    way += ["worker/engine/engine.py", "worker/jobs/executor.py", "api/routes/files.py"]
    assert sorted(way) == sorted(set(way) & set(passed))
    assert passed.index(way[0]) < passed.index(way[2]) < passed.index(way[4]) < passed.index(way[5])
