"""Metrics that our processes serve, by the job that Prometheus reads them from."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import promql_parser as promql
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from core.telemetry import metrics
from scheduler.metrics import Metrics
from tests.unit.api.conftest import Stack
from worker.engine.metrics import FAMILIES

SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
#: Of every target, and Flower's own.
OTHERS = {"up", "flower_events_total"}
#: Labels that Prometheus adds, a bucket's, and Flower's.
ADDED = {"job", "instance", "namespace", "pod", "le", "type"}


def named(text: str) -> set[str]:
    """Read the names of all series from Prometheus' text format."""
    families = list(text_string_to_metric_families(text))
    return {f"{each.name}{end}" for each in families for end in SUFFIXES.get(each.type, ("",))}


async def exposed(folder: Path) -> Mapping[str, set[str]]:
    """Name what each job serves."""
    async with Stack(folder).client() as client:
        api = (await client.get("/metrics")).text
    registry = CollectorRegistry()
    for family in FAMILIES:
        registry.register(family)
    ProcessCollector(registry=registry)
    return {
        "api": named(api) | {"atelier_saturation"},  # once there is a plan
        "scheduler": named(Metrics().render().decode()),
        "worker": named(generate_latest(registry).decode()),
    }


def labels() -> set[str]:
    """Every label of a metric of ours."""
    ours = [each for each in vars(metrics).values() if isinstance(each, MetricWrapperBase)]
    ours += Metrics()._registry._collector_to_names
    return {label for each in ours for label in each._labelnames} | ADDED


def selectors(expression: str) -> Iterator[promql.VectorSelector]:
    """Every series that an expression asks for."""
    found: list[promql.VectorSelector] = []

    def note(node: promql.Expr) -> None:
        if isinstance(node, promql.VectorSelector):
            found.append(node)
        elif isinstance(node, promql.MatrixSelector):
            found.append(node.vector_selector)

    promql.walk(promql.parse(expression), note)
    return iter(found)


def grouped(expression: str) -> set[str]:
    """Every label by which an expression groups."""
    found: set[str] = set()

    def note(node: promql.Expr) -> None:
        if isinstance(node, promql.AggregateExpr) and node.modifier:
            found.update(node.modifier.labels)

    promql.walk(promql.parse(expression), note)
    return found
