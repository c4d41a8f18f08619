import multiprocessing
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
