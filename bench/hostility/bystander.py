"""Ask `/healthz` every few milliseconds and write down how long it took: `... PORT FILE`."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EVERY_S = 0.02
PATIENCE_S = 30.0
#: Seconds of quiet before what the bystander is there for, and after it.
QUIET_S = 2.0
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def main(port: int, file: Path) -> None:
    """Ask until the process is ended; a line each: when it began, and seconds (inf: no answer)."""
    connection = None
    with file.open("w", buffering=1) as log:
        due = time.monotonic()
        while True:
            began = time.monotonic()
            try:
                connection = connection or socket.create_connection(("127.0.0.1", port), PATIENCE_S)
                connection.sendall(REQUEST)
                is_well = _is_well(connection)
            except OSError:
                is_well = False
            took = time.monotonic() - began if is_well else float("inf")
            if not is_well:
                connection = None
            log.write(f"{began} {took}\n")
            due = max(due + EVERY_S, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))


def _is_well(connection: socket.socket) -> bool:
    """Read one answer to its end, which comes in a piece of its own."""
    taken = b""
    while b"\r\n\r\n" not in taken or not taken.endswith(b"}"):
        data = connection.recv(65_536)
        if not data:
            return False
        taken += data
    return taken.startswith(b"HTTP/1.1 200")


@contextmanager
def standing_by(port: int, file: Path) -> Iterator[None]:
    """Have somebody else look after the service meanwhile."""
    command = [sys.executable, "-m", "bench.hostility.bystander", str(port), str(file)]
    with subprocess.Popen(command) as process:
        try:
            time.sleep(QUIET_S)
            yield
            time.sleep(QUIET_S)
        finally:
            process.terminate()


def read_probes(file: Path) -> list[tuple[float, float]]:
    """Read when each probe was due and how late its answer was, those not sent in time too."""
    probes = []
    for line in file.read_text().splitlines():
        began, took = map(float, line.split())
        took = min(took, PATIENCE_S)
        late = [took - at * EVERY_S for at in range(int(took / EVERY_S))]
        probes += [(began, each) for each in late or [took]]
    return probes


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
