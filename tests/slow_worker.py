"""`python -m tests.slow_worker`: a worker like any other that knows more families."""

import sys

if __name__ == "__main__":
    from run.worker import main
    from worker.families import FAMILIES

    FAMILIES["slow"] = "tests.slow:SlowRunner"
    FAMILIES["deadly"] = "tests.slow:DeadlyRunner"
    FAMILIES["heavy"] = "tests.slow:HeavyRunner"
    sys.exit(main())
