"""An engine that ends after some steps, and another that goes on from what it has kept."""

from dataclasses import replace

from core.errors import JobHandedOver
from storage.objects.image_states import StateKey
from tests.stock import Recorder
from worker.cpu.image_states import newest
from worker.diffusion.image_state import read_state
from worker.engine.engine import Engine
from worker.futures import resolved
from worker.jobs.states import StateWriter

#: So long that no copy is too dear.
STEP_S = 1e6


class Objects(dict):
    """Keeps what it is given."""

    def put_states(self, states):
        self.update(states)
        return resolved(None)

    def delete(self, keys):
        for key in keys:
            del self[key]


class Pixels(Recorder):
    """Hands pixels over as workers do; keeps the images as floats."""

    def state_of(self, sample):
        return self.runner.state_of(sample)

    def resume(self, sample, payload):
        return self.runner.resume(sample, payload)

    def decode(self, sample):
        self.images.append(super().decode(sample))
        return self.runner.decode(sample)


def identify(job):
    return job.request.prompt


def make(runner, job, brought=None, *, until=None, states=None, every=1, hands_over=False):
    """Make a job, or as many steps of it, going on from states.

    Returns its float images in the order of decoding, what was kept, and calls of the model.
    """
    objects, recorder = Objects(), Pixels(runner)
    writer = StateWriter(store=objects, identify=identify, every=every)
    engine = Engine(
        max_slots=8,
        max_rows=16,
        slo_s=60,
        on_step=lambda batch, step_s: writer.note(batch, STEP_S),
        on_hand_over=writer.hand_over,
    )
    engine.attach(recorder)
    future = engine.add(job, None, brought, states or {})
    while not future.done() and (until is None or len(recorder.batches) < until):
        engine.step()
        writer._write()
    if hands_over:
        engine.stop(job.id, JobHandedOver("elsewhere"))
        engine.step()
        writer._write()
    if future.done() and future.exception() is not None and not hands_over:
        raise future.exception()
    return recorder.images, objects, recorder.batches


def left(objects, job):
    """What another worker finds of a job."""
    keys = map(StateKey.read, newest(objects))
    return {key.index: read_state(objects[str(key)], identify(job)) for key in keys}


def goes_on(job, first, second, brought=None, *, until, every=1):
    """Have one runner take so many steps of a job, another the rest, and give both images.

    `second` is asked for twice, so that each image begins with a model of its own.
    """
    whole, _, calls = make(first(), job, brought)
    _, objects, _ = make(first(), job, brought, until=until, every=every)
    states = left(objects, job)
    assert states, "nothing was kept"
    made, _, more = make(second(), replace(job, fence=job.fence + 1), brought, states=states)
    return whole, made, (len(calls), len(more))
