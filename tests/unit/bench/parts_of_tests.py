"""A part of a GPU run for tests: it tells one figure, starts a process, and goes on by its mode."""

import subprocess
import time

from bench.parts.report import plain


def measure(part, tell, is_dry, seconds):
    tell("told early", plain(1.0, "s"))
    tell("told early", plain(2.0, "s"))
    child = subprocess.Popen(["sleep", "600"])
    tell(None, str(child.pid))
    if part.title == "fail":
        raise ValueError("no such thing\nas a second line")
    if part.title == "hang":
        time.sleep(600)
    tell("told late", plain(3.0, "images/s"))
