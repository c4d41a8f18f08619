"""Celery task of one ControlNet session; it ends when the image does."""

from tasks.app import app
from worker.control.offers import TASK


def control(offer: dict[str, object]) -> str:
    """Say why the session is over; raise why there was none."""
    from worker.control.server import (
        process_server as host,  # torch is for those workers alone that serve ControlNets
    )

    return host.serve(offer)


task = app.task(control, name=TASK, Request="tasks.doorbell:DoorbellRequest")
