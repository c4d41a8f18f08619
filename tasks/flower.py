"""Run Flower with the logs of this service: `python -m tasks.flower --port=5555`."""

import sys

from core.log import configure
from core.settings import get_settings
from tasks.app import app


def main() -> None:
    """Serve until told to stop; options are Flower's own."""
    settings = get_settings()
    configure(settings.log_level, is_json=settings.log_json, process="flower")
    app.start(["flower", "--logging=none", *sys.argv[1:]])


if __name__ == "__main__":
    main()
