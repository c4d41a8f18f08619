import os
import signal
from pathlib import Path

from zoo.runner import run


class Counting:
    """A training that only counts, and may ask itself to stop."""

    def __init__(self, *, stops_at: int | None = None) -> None:
        self.step = 0
        self._stops_at = stops_at

    def advance(self) -> float:
        self.step += 1
        if self.step == self._stops_at:
            os.kill(os.getpid(), signal.SIGTERM)
        return 0.0

    def save(self, path: Path) -> None:
        path.write_text(str(self.step))

    def load(self, path: Path) -> None:
        self.step = int(path.read_text())


def test_a_run_ends_at_its_last_step_with_a_checkpoint(tmp_path):
    checkpoint = tmp_path / "run.pt"
    assert run(Counting(), "count", 5, checkpoint, save_every=2)
    assert checkpoint.read_text() == "5"


def test_a_stopped_run_saves_and_goes_on_from_there(tmp_path):
    checkpoint = tmp_path / "run.pt"
    assert not run(Counting(stops_at=3), "count", 9, checkpoint, save_every=100)
    assert checkpoint.read_text() == "3"
    resumed = Counting()
    assert run(resumed, "count", 9, checkpoint, save_every=100)
    assert resumed.step == 9


def test_signal_handlers_are_put_back(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    run(Counting(), "count", 1, tmp_path / "run.pt", save_every=1)
    assert signal.getsignal(signal.SIGTERM) is before
