"""Who records a kept template before its first edit? A job of our own, when nobody waits."""

from uuid import uuid4

from api.services import Services
from core.errors import AtelierError
from core.job import Edit, JobRequest, Priority, Task
from core.log import get_logger
from core.placement import PlacementQuery
from core.upload import Upload
from storage.jobs import NewJob
from tasks.messages import QUEUE_PRIORITY, envelope

log = get_logger(__name__)

#: Whose jobs they are: no tenant sees them.
RECORDER = "~recorder"


async def record(services: Services, upload: Upload) -> None:
    """Ask for a template to be recorded as its edits will use it, if they leave all to the service.

    Best effort: the first edit records what was not.
    """
    try:
        await _submit(services, upload)
    except AtelierError as error:
        log.info("template_not_recorded", template=upload.id, reason=str(error))


async def _submit(services: Services, upload: Upload) -> None:
    able = services.rules.editors(upload.width, upload.height)
    if not able:
        return
    query = PlacementQuery(prompt="", models=tuple(model.name for model in able))
    placement = await services.placements.place(query)
    model = services.models[placement.model]
    job_id, priority = uuid4().hex, QUEUE_PRIORITY[Priority.BATCH]
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
        tenant=RECORDER,
        request=request,
        placement=placement,
        deadline_s=None,
        message=envelope(job_id, placement.queue, priority),
        priority=priority,
    )
    await services.submitter.submit(new)
