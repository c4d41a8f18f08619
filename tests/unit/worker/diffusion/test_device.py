import subprocess
import sys

import pytest

from tests.cases import rarely_but

STEPS = """
import sys, resource, threading
import torch
from worker.diffusion.device import use_host
use_host(1) if sys.argv[1] == "use_host" else torch.set_num_threads(1)

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = [torch.zeros(2**20) for _ in range(30)]
    del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def run():
    torch.zeros(2**21)  # from now on blocks of this size come from the heap
    faults(), faults()
    print(torch.get_num_threads(), min(faults() for _ in range(5)))

thread = threading.Thread(target=run) if sys.argv[2] == "thread" else None
thread.start() if thread else run()
"""
PAGES = 30 * 2**20 * 4 / 2**12  #: of what a step takes and frees again


def faults(how, where):
    """Count the pages that the kernel clears in a step, in a process of its own."""
    command = [sys.executable, "-c", STEPS, how, where]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    threads, found = map(int, done.stdout.split())
    assert threads == 1
    return found


@pytest.mark.parametrize("where", rarely_but(["thread"], ["main"]))
def test_the_heap_keeps_what_a_step_frees(where):
    """As it comes it does so in one process, and in most others clears all of it at every step."""
    assert faults("use_host", where) < PAGES / 100
