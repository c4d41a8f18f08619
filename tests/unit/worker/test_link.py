import gc
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from worker.parallel import link
from worker.parallel.link import Link, LinkLost
from worker.parallel.messages import PredictionFailed


def a_link(pipe):
    group = SimpleNamespace(send=lambda *_: None)
    return Link(pipe, group, other=1, device=torch.device("cpu"))


def test_a_rank_that_reads_nothing_keeps_nobody_waiting(monkeypatch):
    monkeypatch.setattr(link, "SENDING_S", 0.1)
    ours, theirs = multiprocessing.Pipe()
    large = PredictionFailed(reason="long" * 2**20, is_memory=False)
    with pytest.raises(LinkLost, match=r"has read nothing for 0\.1 s"):
        a_link(ours).send(large)
    theirs.close()


def test_a_rank_that_does_not_answer_is_lost():
    ours, theirs = multiprocessing.Pipe()
    with pytest.raises(LinkLost, match="no answer in 0 s"):
        a_link(ours).receive(0.01)
    theirs.close()
    with pytest.raises(LinkLost, match="its process has ended"):
        a_link(ours).receive(1.0)


def test_ranks_that_go_late_leave_the_files_of_others_alone(tmp_path):
    """Their store would write to whatever has the number of its file by then, and read for ever."""
    meeting, pipes = os.memfd_create("ranks"), multiprocessing.Pipe()
    other = tmp_path / "other"
    other.write_bytes(b"weights" * 1000)
    path = Path(f"/proc/{os.getpid()}/fd/{meeting}")
    with ThreadPoolExecutor(2) as pool:
        meets = partial(Link.open, meeting=path, device=torch.device("cpu"))
        links = [pool.submit(meets, pipe, rank=rank) for rank, pipe in enumerate(pipes)]
        held = [each.result() for each in links]
    opened = os.open(other, os.O_RDWR)
    os.dup2(opened, meeting)
    before = len(os.listdir("/proc/self/fd"))
    del held, links
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before - 2
    assert other.read_bytes() == b"weights" * 1000
    os.close(opened)
    os.close(meeting)
