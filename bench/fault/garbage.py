"""Push what is no message into every queue: broken JSON, wrong shapes, unknown tasks."""

import asyncio
import json
from base64 import b64encode

from bench.fault.scenario import Scenario
from core.placement import CPU_QUEUE, own_queue_of
from storage.redis.connect import ask
from storage.redis.keys import PRIORITIES, list_of
from tasks.messages import envelope
from worker.control.offers import QUEUE as CONTROL

QUEUE = "gen.slow"


def garbage() -> list[bytes]:
    """List messages that no worker can read, each wrong in its own way."""
    whole = json.loads(envelope("0" * 32, QUEUE, 0))
    properties, headers = whole["properties"], whole["headers"]
    wrong = [
        7,
        [1, 2, 3],
        {},
        whole | {"body": "%%% no base64"},
        whole | {"body": b64encode(b"{").decode()},
        whole | {"body": b64encode(b'{"a": 1}').decode()},
        whole | {"body": 7},
        whole | {"content-type": "application/x-python-serialize"},
        whole | {"content-encoding": "no-such-encoding"},
        whole | {"headers": headers | {"task": "no.such.task"}},
        whole | {"headers": {}},
        whole | {"headers": [1]},
        whole | {"headers": headers | {"eta": "yesterday"}},
        whole | {"headers": headers | {"expires": "yesterday"}},
        whole | {"headers": headers | {"retries": "x", "timelimit": 7}},
        whole | {"headers": headers | {"compression": "zlib"}},
        whole | {"properties": {}},
        whole | {"properties": None},
        whole | {"properties": properties | {"delivery_info": 7}},
        whole | {"properties": properties | {"delivery_tag": [1]}},
        whole | {"properties": properties | {"body_encoding": "no-such"}},
    ]
    return [b"hello {{{", b"", b"\xff\xfe", *(json.dumps(each).encode() for each in wrong)]


class Garbage(Scenario):
    """Messages that cannot be read, between those that can."""

    def start(self) -> None:
        self.rig.cpu_worker()
        self.rig.start("control", "run.worker", "--control", ATELIER_WORKER_NAME="control@rig")
        super().start()

    async def disturb(self) -> None:
        queues = [
            QUEUE,
            CPU_QUEUE,
            CONTROL,
            *(own_queue_of(QUEUE, f"{w}@rig") for w in self.workers),
        ]
        lists = [list_of(queue, priority) for queue in queues for priority in PRIORITIES]
        for message in garbage():
            await asyncio.sleep(self.random.uniform(0.0, 0.2))
            for name in lists:
                end = self.random.choice(("LPUSH", "RPUSH"))
                await ask(self.redis, end, name, message)
        until = asyncio.get_running_loop().time() + self.patience_s
        while await self._left(lists) and asyncio.get_running_loop().time() < until:
            self.supervise()
            await asyncio.sleep(0.2)
        for name in ("cpu", "control"):
            self.findings.worker_exits += self.rig.processes[name].poll() is not None

    async def _left(self, lists: list[str]) -> int:
        return sum([int(await ask(self.redis, "LLEN", name)) for name in lists])
