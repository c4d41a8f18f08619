"""Start a whole service in a rig, and wait until it takes jobs."""

import httpx

from tests.rig import Rig

BODY = {"prompt": "a red circle", "steps": 1}


def served(rig: Rig) -> httpx.Client:
    """Start every process; return a client of the api once a job is taken."""
    rig.upkeep()
    rig.start("worker", "run.worker", ATELIER_WORKER_NAME="worker@rig")
    rig.start("scheduler", "run.scheduler")
    rig.start("api", "run.api")
    rig.wait_for_worker("worker")
    client = httpx.Client(base_url=rig.env["ATELIER_PUBLIC_URL"], timeout=30.0)
    rig.wait_until(lambda: _takes_a_job(client))
    return client


def _takes_a_job(client: httpx.Client) -> bool:
    """Tell whether everything answers and there is a plan."""
    try:
        return client.post("/v1/jobs", json=BODY).is_success
    except httpx.HTTPError:
        return False
