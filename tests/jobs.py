"""Jobs for tests of the engine, with every default filled in."""

from dataclasses import replace

from core.job import Job, JobRequest, JobStatus
from core.levels.level import Level
from core.placement import Placement


def a_request(**changes):
    request = JobRequest(
        prompt="a red circle",
        model="tiny",
        width=32,
        height=32,
        steps=4,
        guidance=5.0,
        seed=0,
    )
    return replace(request, **changes)


def a_job(id="j1", *, at=0.0, **changes):
    request = a_request(**changes)
    placement = Placement.on(Level(model=request.model))
    return Job(
        id=id,
        tenant="t",
        request=request,
        placement=placement,
        status=JobStatus.RUNNING,
        created_at=at,
    )
