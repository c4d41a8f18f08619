"""How many requests a router answers, by the files that it may open."""

import subprocess
import sys

import pytest

TELL = "from run.router import max_requests; print(max_requests())"


@pytest.mark.parametrize(("files", "requests"), [(500, 125), (3000, 1000)])
def test_a_router_answers_as_many_requests_as_it_has_files_for(files: int, requests: int) -> None:
    limited = f"ulimit -n {files} && exec {sys.executable} -c '{TELL}'"
    told = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=True)
    assert int(told.stdout) == requests
