"""Many threads that read their first job at once: the types of jobs are found out about once."""

import subprocess
import sys

FIRST_JOBS = """
import sys, threading
from dataclasses import make_dataclass
from core.codec import decode

sys.setswitchinterval(1e-6)
for n in range(100):
    inner = make_dataclass(f"Inner{n}", [(f"field{i}", str, "") for i in range(20)])
    outer = make_dataclass(f"Outer{n}", [(f"field{i}", inner, None) for i in range(20)])
    document = b'{"field19": {"field19": "read"}}'
    found, begun = [], threading.Event()

    def read():
        begun.wait()
        found.append(decode(document, outer).field19.field19)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for each in threads:
        each.start()
    begun.set()
    for each in threads:
        each.join()
    assert found == ["read"] * 8, found
"""


def test_threads_that_read_a_type_for_the_first_time_at_once_do_not_end_the_process():
    done = subprocess.run([sys.executable, "-c", FIRST_JOBS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
