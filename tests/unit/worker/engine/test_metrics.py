from core.model import Model
from core.telemetry import metrics
from tests.jobs import a_job
from worker.engine.engine import Engine
from worker.engine.metrics import observe_step
from worker.families.noop import NoopRunner


def test_every_step_is_one_sample_whatever_shares_it():
    family = metrics.step_time.labels("counted")
    engine = Engine(max_slots=4, max_rows=8, slo_s=60.0, on_step=observe_step)
    engine.attach(NoopRunner(Model(name="counted", family="noop")))
    for name in ("j1", "j2"):
        engine.add(a_job(name, model="counted", steps=5), None)
    while engine.step():
        pass
    counts = {s.name: s.value for s in family._child_samples()}
    assert counts["_count"] == 5
