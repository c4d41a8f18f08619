"""Small real programs for the supervisor to look after."""

import sys
from pathlib import Path

from cli.stack.process import ServiceSpec

#: Notes its start and its end, waits for SIGTERM.
POLITE = """
import os, pathlib, signal, sys, time
note = pathlib.Path(sys.argv[1])
def say(what):
    with note.open("a") as file:
        file.write(f"{what} {sys.argv[2]} {os.getpid()}\\n")
def leave(*_):
    say("ended")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
say("started")
while True:
    time.sleep(60)
"""

#: Does not listen to SIGTERM and has a child of its own.
DEAF = """
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with pathlib.Path(sys.argv[1]).open("a") as file:
    file.write(f"started {sys.argv[2]} {os.getpid()}\\nstarted grandchild {child.pid}\\n")
time.sleep(600)
"""

BROKEN = "import sys; sys.exit('no such setting')"


def toy(name: str, note: Path, program: str = POLITE, *, stop_s: float = 10.0) -> ServiceSpec:
    async def has_started() -> bool:
        return note.exists() and f"started {name} " in note.read_text()

    command = (sys.executable, "-c", program, str(note), name)
    return ServiceSpec(name=name, command=command, is_ready=has_started, stop_s=stop_s)


def notes(note: Path, what: str) -> list[str]:
    """Names that started or ended, in their order."""
    lines = note.read_text().splitlines() if note.exists() else []
    return [line.split()[1] for line in lines if line.startswith(what)]


def pids(note: Path, name: str) -> list[int]:
    lines = note.read_text().splitlines() if note.exists() else []
    return [int(line.split()[2]) for line in lines if line.startswith(f"started {name} ")]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
