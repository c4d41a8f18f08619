from pathlib import Path

from tests.journey import opened, travel

PASSED = 56  #: files that a job passes today, one of them what submit and placement share
OPENED = 40  #: of these, those that a reader opens; the bar is 25
OF_OTHER_JOBS = {"loras", "controlnets", "controls", "edits", "images", "tokenizers", "sources"}


async def test_a_job_passes_no_more_files_than_it_did(tmp_path: Path) -> None:
    lines = await travel(tmp_path)
    passed = [str(path) for path in lines]
    assert len(passed) <= PASSED, passed
    assert len(opened(lines)) <= OPENED, opened(lines)
    way = ["api/routes/submit.py", "scheduler/placement/placer.py", "tasks/submit.py"]
    way += ["worker/engine/engine.py", "worker/jobs/executor.py", "api/routes/files.py"]
    assert sorted(way) == sorted(set(way) & set(passed))
    assert passed.index(way[0]) < passed.index(way[2]) < passed.index(way[4]) < passed.index(way[5])
    assert not {path.stem for path in map(Path, passed)} & OF_OTHER_JOBS
