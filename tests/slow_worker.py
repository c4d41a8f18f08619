"""`python -m tests.slow_worker`: a worker like any other that knows more families."""

import sys

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
    sys.exit(main())
