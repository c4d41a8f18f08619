"""`python -m tests.slow_worker`: a worker like any other that knows more families."""

import os
import sys
import threading


def unhurried(runner, step_s):
    """A family's runner whose steps take so long at least, on the fastest machine too."""

    class Unhurried(runner):
        def forward(self, samples):
            threading.Event().wait(step_s)
            return super().forward(samples)

    return Unhurried


if __name__ == "__main__":
    from run.worker import main
    from tests.slow import (
        ChainRunner,
        CountingRunner,
        DeadlyRunner,
        FatalRunner,
        HeavyRunner,
        SlowRunner,
    )
    from worker.families import RUNNERS

    RUNNERS["slow"] = lambda: SlowRunner
    RUNNERS["deadly"] = lambda: DeadlyRunner
    RUNNERS["counting"] = lambda: CountingRunner
    RUNNERS["chain"] = lambda: ChainRunner
    RUNNERS["fatal"] = lambda: FatalRunner
    RUNNERS["heavy"] = lambda: HeavyRunner
    if step_s := os.environ.get("TEST_STEP_S"):
        sdxl = RUNNERS["sdxl"]
        RUNNERS["sdxl"] = lambda: unhurried(sdxl(), float(step_s))
    sys.exit(main())
