"""Wire format of job messages: Celery protocol 2 without Celery code. Pure.

A Celery v2 message as kombu keeps it in a Redis list, made by replacing three marks in a
text prepared once: no Celery code runs per message. The record is the truth; a message
carries the job's id and nothing else of it.
"""

import json
from base64 import b64encode

from core.job import Priority
from storage.jobs.jobs import TAG

GENERATE = "tasks.generate"  #: the task that makes a job's images
WEBHOOK = "tasks.jobs.webhook"  #: the task that posts one webhook

SCORE = "tasks.jobs.score"  #: the task that scores finished images
RETRAIN = "tasks.jobs.retrain"  #: the task that trains the classifier anew

CPU_QUEUE = "cpu"  #: ordinary tasks, served by workers without a model

#: Of what nobody waits for: recordings of templates, and what waits on the CPU queue.
LAST_PRIORITY = 9

#: One of the steps of `storage.redis.keys.PRIORITIES`; 0 is served first.
QUEUE_PRIORITY = {Priority.INTERACTIVE: 0, Priority.BATCH: 6}

_EMBED = '{"callbacks": null, "errbacks": null, "chain": null, "chord": null}'
_TEMPLATE = json.dumps(
    {
        "body": "@@BODY@@",
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": "@@TASK@@",
            "id": "@@ID@@",
            "shadow": None,
            "eta": None,
            "expires": None,
            "group": None,
            "group_index": None,
            "retries": 0,
            "timelimit": [None, None],
            "root_id": "@@ID@@",
            "parent_id": None,
            "argsrepr": "('@@ID@@',)",
            "kwargsrepr": "{}",
            "origin": "atelier",
            "ignore_result": True,
            "replaced_task_nesting": 0,
            "stamped_headers": None,
            "stamps": {},
        },
        "properties": {
            "correlation_id": "@@ID@@",
            "reply_to": "",
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "@@QUEUE@@"},
            "priority": "@@PRIORITY@@",
            "body_encoding": "base64",
            "delivery_tag": TAG,
        },
    }
)


def _prepare(task: str) -> str:
    return _TEMPLATE.replace("@@TASK@@", task).replace('"@@PRIORITY@@"', "@@PRIORITY@@")


_GENERATE = _prepare(GENERATE)


def envelope(job_id: str, queue: str, priority: int) -> str:
    """Write the message that rings for one job; the script that sends it fills in `@@TAG@@`."""
    body = b64encode(f'[["{job_id}"], {{}}, {_EMBED}]'.encode()).decode()
    return (
        _GENERATE.replace("@@BODY@@", body)
        .replace("@@ID@@", job_id)
        .replace("@@QUEUE@@", queue)
        .replace("@@PRIORITY@@", str(priority))
    )
