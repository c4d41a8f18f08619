"""The task that is one session of a ControlNet worker: it ends when the image does."""

from tasks.app import app
from worker.control.offers import TASK


def control(offer: dict[str, object]) -> str:
    """Say why the session is over; raise why there was none."""
    from worker.control import host  # torch is for those workers alone that serve ControlNets

    return host.serve(offer)


task = app.task(control, name=TASK, Request="tasks.doorbell:DoorbellRequest")
