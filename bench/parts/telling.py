"""Play a worker that makes many jobs at once and tells of each a step a second.

In a process of its own: `python -m bench.parts.telling REDIS_URL FILE_OF_IDS`. Ends with its input.
"""

import base64
import io
import json
import sys
import threading
import time
from itertools import cycle
from pathlib import Path

import typer
from PIL import Image

from core.job import Progress
from storage.jobs.leases import LeaseStore
from storage.redis.connect import connect_sync

#: As the heartbeat of a worker does.
TICK_S = 0.1
BEAT_S = 5.0
LEASE_S = 60.0
#: Ticks between two words of one job.
TURNS = 10
STEPS = 10_000
PREVIEW_SIDE = 128


def main(redis_url: str, file: Path) -> None:
    """Claim every job, then tell until nobody listens."""
    leases = LeaseStore(connect_sync(redis_url), worker="teller@bench", lease_s=LEASE_S)
    held = {}
    for job_id in file.read_text().split():
        if (claim := leases.claim(job_id)) is not None:
            held[job_id] = claim.fence
    typer.echo(len(held))
    sys.stdout.flush()
    is_over = threading.Event()
    threading.Thread(target=_wait_for_end, args=[is_over], daemon=True).start()
    picture, beaten_at = _preview(), 0.0
    due = time.monotonic()
    for tick, turn in enumerate(cycle(range(TURNS))):
        if is_over.is_set():
            return
        step = 1 + tick // TURNS
        news = {each: Progress(step=step, steps=STEPS) for each in list(held)[turn::TURNS]}
        document = json.dumps({"step": step, "preview": picture})
        leases.progress(news, {each: document for each in news if leases.followed.get(each)})
        if time.monotonic() - beaten_at > BEAT_S:
            leases.beat(held)
            beaten_at = time.monotonic()
        due += TICK_S
        time.sleep(max(0.0, due - time.monotonic()))


def _wait_for_end(is_over: threading.Event) -> None:
    sys.stdin.read()
    is_over.set()


def _preview() -> str:
    """Write a picture as workers do: a few kB."""
    written = io.BytesIO()
    noise = Image.effect_noise((PREVIEW_SIDE, PREVIEW_SIDE), 40).convert("RGB")
    noise.save(written, "JPEG", quality=60)
    return base64.b64encode(written.getvalue()).decode()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
