"""`python -m run.worker`: one worker process for one device; `--cpu`: one for ordinary tasks.

`--control`: one for one device that computes ControlNets beside the models of other workers.
Imports next to nothing: the CPU processes it spawns import this module again.
"""

import gc
import sys


def main() -> int:
    """Run until told to stop; return the exit status."""
    from core.errors import ConfigurationError
    from core.log import end
    from core.settings import get_settings
    from core.telemetry.traces import TRACES
    from storage.boards.schema import announcing
    from worker.process.serve import serve_control, serve_cpu, serve_models

    try:
        from tasks.app import app  # reads the settings

        with announcing(get_settings(), "worker"):
            if "--control" in sys.argv[1:]:
                status = serve_control(app)
            else:
                status = serve_cpu(app) if "--cpu" in sys.argv[1:] else serve_models(app)
    except ConfigurationError as error:
        end("worker", error)
    TRACES.stop()
    gc.freeze()  # the interpreter would look for garbage among all that torch brought: a second
    return status


if __name__ == "__main__":
    sys.exit(main())
