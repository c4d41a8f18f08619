"""`python -m tests.slow_worker`: a worker like any other that knows one more family."""

import sys

if __name__ == "__main__":
    from worker.families import FAMILIES
    from worker.main import main

    FAMILIES["slow"] = "tests.slow:SlowRunner"
    sys.exit(main())
