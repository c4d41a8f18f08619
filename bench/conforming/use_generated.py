"""Use a client that was generated: an image, an edit with uploads, problems; print one JSON line.

Run by the environment of the tools, with folder, URL, key, model, photo and mask as arguments.
"""

# ruff: noqa: ANN401 - what is generated has no types here
import importlib
import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

folder, url, key, model, photo, mask = sys.argv[1:]
sys.path.insert(0, str(Path(folder).parent))
NAME = Path(folder).name


def module(path: str) -> Any:
    """Import a part of the generated client."""
    return importlib.import_module(f"{NAME}.{path}")


models, client = module("models"), module("client").AuthenticatedClient(base_url=url, token=key)


def ended(job_id: str) -> Any:
    """Wait for a job by long polls."""
    job = module("api.jobs.read_job").sync(job_id, client=client, wait=30.0)
    while job.status in ("queued", "running"):
        job = module("api.jobs.read_job").sync(job_id, client=client, wait=30.0)
    return job


def create(**fields: Any) -> Any:
    """Ask for a job; a problem comes back as one."""
    body = models.JobCreate(model=model, **fields)
    return module("api.jobs.create_job").sync(client=client, body=body)


def add(noun: str, path: str) -> Any:
    """Upload a picture."""
    file = module("types").File(payload=BytesIO(Path(path).read_bytes()))
    return module(f"api.images.add_{noun}").sync(client=client, body=file)


made = ended(create(prompt="a red circle", steps=2, seed=1).id)
template, white = add("template", photo), add("file", mask)
task = models.Task("edit")
edited = ended(create(task=task, prompt="a star", template=template.id, mask=white.id, steps=2).id)
problem = create(prompt="", n=99)
told = {
    "made": made.status,
    "sha256": made.images[0].sha256,
    "edited": edited.status,
    "width": edited.width,
    "template": template.width,
    "problem": problem.status,
    "fields": sorted(each.field for each in problem.errors),
    "missing": module("api.jobs.read_job").sync("nobody", client=client).title,
}
sys.stdout.write(json.dumps(told, default=str) + "\n")
