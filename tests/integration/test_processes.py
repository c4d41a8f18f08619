"""CPU processes that die, and images stored through them."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from pydantic import SecretStr

from core.errors import EngineError
from core.request.output import Output
from core.settings import Settings
from storage.objects.store import open_objects
from worker.cpu.processes import MAX_TRIES, Processes
from worker.engine.slot import JobImages
from worker.jobs.images import Images

pytestmark = pytest.mark.integration


def nothing():
    return None


def die():
    os._exit(1)


def divide(a, b):
    return a / b


@pytest.fixture(scope="module")
def processes():
    processes = Processes(1, nothing)
    processes.warm_up()
    yield processes
    processes.close()


def test_a_call_is_made_in_another_process(processes):
    assert processes.run(os.getpid).result(30) != os.getpid()


def test_what_a_call_raises_comes_back(processes):
    with pytest.raises(ZeroDivisionError):
        processes.run(divide, 1, 0).result(30)


def test_a_process_that_dies_is_replaced(processes):
    before = processes.run(os.getpid).result(30)
    os.kill(before, signal.SIGKILL)
    answers = [processes.run(divide, i, 2) for i in range(4)]
    assert [a.result(30) for a in answers] == [0.0, 0.5, 1.0, 1.5]
    assert processes.run(os.getpid).result(30) != before


def test_a_call_that_kills_every_process_is_given_up(processes):
    with pytest.raises(EngineError, match="died"):
        processes.run(die).result(30 * MAX_TRIES)
    assert processes.run(divide, 1, 2).result(30) == 0.5


def test_signals_to_the_group_are_the_parents_to_handle(processes):
    child = processes.run(os.getpid).result(30)
    os.kill(child, signal.SIGINT)
    os.kill(child, signal.SIGTERM)
    assert processes.run(os.getpid).result(30) == child


def test_images_of_jobs_done_together_are_all_stored(tmp_path):
    settings = Settings(data_dir=tmp_path, url_secret=SecretStr("s"))
    images, objects = Images(settings), open_objects(settings)
    pixels = np.zeros((16, 16, 3), np.uint8)
    made = JobImages(job_id="j", images=(pixels,), seeds=(1,), admitted_at=0.0, denoised_at=0.0)
    answers = [images.put(f"t/j{i}/1", made, Output()) for i in range(50)]
    stored = [answer.result(60)[0] for answer in answers]
    images.delete([stored[0].key])
    images.close()
    assert len({image.sha256 for image in stored}) == 1
    assert not (tmp_path / "objects" / stored[0].key).exists()
    assert objects.get(stored[49].key)


def test_a_process_that_is_stopped_is_replaced_and_its_call_made_again():
    processes = Processes(1, nothing, silent_s=3.0)
    try:
        before = processes.run(os.getpid).result(30)
        os.kill(before, signal.SIGSTOP)
        assert processes.run(divide, 1, 2).result(30) == 0.5
        assert processes.run(os.getpid).result(30) != before
    finally:
        processes.close()


def test_a_large_call_to_a_process_that_is_stopped_comes_through_too():
    processes = Processes(1, nothing, silent_s=3.0)
    try:
        os.kill(processes.run(os.getpid).result(30), signal.SIGSTOP)
        assert processes.run(len, bytes(2**22)).result(30) == 2**22
    finally:
        processes.close()


def test_a_long_call_is_not_taken_for_a_hang():
    processes = Processes(1, nothing, silent_s=6.0)
    try:
        before = processes.run(os.getpid).result(30)
        processes.run(time.sleep, 8.0).result(30)
        assert processes.run(os.getpid).result(30) == before
    finally:
        processes.close()


def test_processes_share_no_semaphore_that_a_kill_would_leave_behind():
    program = """
import os, signal
from worker.cpu.processes import Processes
if __name__ == "__main__":
    before = set(os.listdir("/dev/shm"))
    processes = Processes(2, print)
    processes.warm_up()
    print(*(set(os.listdir("/dev/shm")) - before), flush=True)
    os.killpg(os.getpgid(0), signal.SIGKILL)
"""
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, start_new_session=True, check=False, stdout=subprocess.PIPE)
    made = {each for each in ran.stdout.decode().split() if each.startswith("sem.mp-")}
    assert not made & set(os.listdir("/dev/shm"))
