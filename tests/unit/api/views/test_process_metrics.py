from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from api.views.process_metrics import merge
from core.telemetry import metrics
from scheduler.metrics import Metrics
from worker.engine.metrics import FAMILIES


def read(registry):
    return list(text_string_to_metric_families(generate_latest(registry).decode()))


def worker(*steps, model="small", hits=0, ranks=1):
    """What one process says of steps that took so many seconds."""
    registry = CollectorRegistry()
    times = Histogram("step", "One step.", ["model"], registry=registry, buckets=(1, 2))
    for seconds in steps:
        times.labels(model).observe(seconds)
    Counter("hits", "Lookups.", registry=registry).inc(hits)
    Gauge("ranks", "Ranks.", registry=registry).set(ranks)
    return read(registry)


def samples(families):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_histograms_are_summed_bucket_by_bucket():
    assert samples(merge([worker(0.5, 1.5), worker(1.5, 9.0)], taken=())) == {
        ("step_bucket", "1.0", "small"): 1,
        ("step_bucket", "2.0", "small"): 3,
        ("step_bucket", "+Inf", "small"): 4,
        ("step_count", "small"): 4,
        ("step_sum", "small"): 12.5,
        ("hits_total",): 0,
        ("ranks",): 1,
    }


def test_counters_are_summed_and_a_gauge_is_the_first_process_s():
    merged = samples(merge([worker(hits=2, ranks=2), worker(hits=3, ranks=1)], taken=()))
    assert (merged["hits_total",], merged["ranks",]) == (5, 2)


def test_series_of_other_labels_stay_apart():
    merged = samples(merge([worker(0.5), worker(0.5, 0.5, model="large")], taken=()))
    assert (merged["step_count", "small"], merged["step_count", "large"]) == (1, 2)


def test_what_is_summed_reads_as_one_process_would_say_it():
    registry = CollectorRegistry()
    registry.register(Shown(merge([worker(0.5, hits=1), worker(1.5, hits=1)], taken=())))
    assert samples(read(registry)) == samples(merge([worker(0.5, 1.5, hits=2)], taken=()))


def test_a_process_that_said_nothing_takes_nothing_away():
    assert samples(merge([[], worker(0.5), []], taken=())) == samples(merge([worker(0.5)], ()))


def test_what_is_taken_is_left_out():
    names = [family.name for family in merge([worker(0.5), worker(0.5)], taken={"step"})]
    assert names == ["hits", "ranks"]


def test_a_family_without_samples_is_shown_once():
    (step, *_) = merge([worker(), worker()], taken=())
    assert (step.name, step.type, step.samples) == ("step", "histogram", [])


def test_what_is_of_one_process_alone_is_left_out():
    text = "# TYPE process_open_fds gauge\nprocess_open_fds 7\n"
    said = [*worker(0.5), *text_string_to_metric_families(text)]
    assert {"step_created", "process_open_fds"} <= {family.name for family in said}
    assert {family.name for family in merge([said], taken=())} == {"step", "hits", "ranks"}


def test_scheduler_and_workers_mean_the_same_by_a_name():
    """Else a sum would be of neither: the same type, the same buckets."""
    registry = CollectorRegistry()
    for family in FAMILIES:
        registry.register(family)
    metrics.cache_retrieval.labels("latents")
    seen = Metrics()
    seen.see_retrieval(0.01, found=0, asked=1)
    ours = {family.name: family for family in read(registry)}
    theirs = {f.name: f for f in text_string_to_metric_families(seen.render().decode())}
    shared = {name for name in ours.keys() & theirs.keys() if not name.endswith("_created")}
    assert shared == {"atelier_cache_retrieval_seconds", "atelier_cache_hits"}
    for name in shared:
        assert ours[name].type == theirs[name].type
    assert edges(ours["atelier_cache_retrieval_seconds"]) == edges(
        theirs["atelier_cache_retrieval_seconds"]
    )


def edges(family):
    return {sample.labels["le"] for sample in family.samples if "le" in sample.labels}


class Shown:
    def __init__(self, families):
        self.families = families

    def collect(self):
        return self.families
