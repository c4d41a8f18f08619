import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from api.intake.draft import fill
from core.job import JobRequest
from tests.journey import opened, travel
from tests.map import ROOT
from tests.unit.api.conftest import Stack

PASSED = 68  #: files that a job passes today
OPENED = 25  #: of these, those that a reader opens
OF_OTHER_JOBS = {"loras", "controlnets", "controls", "edits", "images", "tokenizers", "sources"}
OF_OTHER_JOBS |= {"embeddings", "learned", "weighted", "ip_adapters", "image_prompts"}


async def test_a_request_is_filled_in_once_however_many_models_could_make_it(
    tmp_path: Path,
) -> None:
    counts = Counter[str]()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in (fill.__code__, JobRequest.on.__code__):
            counts[frame.f_code.co_name] += 1

    async with Stack(tmp_path).client() as client:
        sys.setprofile(count)
        try:
            asked = await client.post("/v1/jobs", json={"prompt": "a red circle"})
        finally:
            sys.setprofile(None)
    assert asked.status_code == 202
    assert counts == {"fill": 1}


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


def test_the_map_says_how_far_a_reader_walks() -> None:
    told = (ROOT / "docs/structure.md").read_text()
    assert f"| 55 | {PASSED} |" in told
    assert f"| 41 | {OPENED} |" in told
