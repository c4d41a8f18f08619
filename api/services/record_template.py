"""Submit jobs of our own that record kept templates before their first edits, behind all others."""

from typing import Final

from api.intake.edits import editors
from api.services.services import Services
from core.cells.ids import new_id
from core.errors import AtelierError
from core.job import Edit, JobRequest, Priority, Task
from core.log import get_logger
from core.model import offered
from core.placement import PlacementQuery
from core.uploads.upload import Upload
from storage.jobs.submit import NewJob
from tasks.messages import LAST_PRIORITY, envelope

log = get_logger(__name__)

#: Recordings of one tenant's templates that may wait or run at a time.
MAX_OPEN: Final = 4


def recorder_of(tenant: str) -> str:
    """Name whose jobs the recordings of a tenant's templates are: no tenant sees them."""
    return f"~recorder:{tenant}"


async def record(services: Services, upload: Upload) -> None:
    """Ask for a template to be recorded as its edits will use it, if they leave all to the service.

    Best effort: the first edit records what was not.
    """
    try:
        async with services.recording:
            if await _has_room(services, upload.tenant):
                await _submit(services, upload)
    except AtelierError as error:
        log.info("template_not_recorded", template=upload.id, reason=str(error))


async def _has_room(services: Services, tenant: str) -> bool:
    newest = await services.jobs.list(recorder_of(tenant), limit=MAX_OPEN)
    return sum(not job.status.is_terminal for job in newest.jobs) < MAX_OPEN


async def _submit(services: Services, upload: Upload) -> None:
    able = editors(offered(services.models).values(), upload.width, upload.height)
    if not able:
        return
    query = PlacementQuery(prompt="", models=tuple(model.name for model in able))
    placement = await services.placements.place(query)
    model = services.models[placement.model]
    job_id = new_id(services.settings.cell)
    edit = Edit(template=upload.key, template_sha256=upload.sha256, mask="")
    request = JobRequest(
        task=Task.EDIT,
        prompt="",
        model=model.name,
        width=upload.width,
        height=upload.height,
        steps=model.default_steps,
        guidance=model.default_guidance,
        seed=edit.default_seed,
        edit=edit,
        priority=Priority.BATCH,
    )
    new = NewJob(
        id=job_id,
        tenant=recorder_of(upload.tenant),
        request=request,
        placement=placement,
        deadline_s=None,
        message=envelope(job_id, placement.queue, LAST_PRIORITY),
        priority=LAST_PRIORITY,
    )
    await services.submitter.submit(new)
