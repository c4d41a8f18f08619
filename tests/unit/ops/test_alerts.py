"""Alerts and dashboard ask for metrics that exist, and each alert has its page."""

import asyncio
import json
import re

import pytest
import yaml

from api.routes.metrics import REDELIVERIES
from core.boards.plan import Strategy
from core.job import JobStatus
from tests.unit.ops.compose import ROOT, read_compose
from tests.unit.ops.exposed import OTHERS, exposed, grouped, labels, selectors

GROUPS = yaml.load((ROOT / "ops/alerts.yml").read_text(), yaml.CSafeLoader)["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
BOARD = json.loads((ROOT / "ops/grafana/dashboards/atelier.json").read_text())
OPERATIONS = (ROOT / "docs/operations.md").read_text()
#: What a variable of the dashboard stands for while it is read here.
VALUES = {"$__rate_interval": "5m", "$model": "shapes-xl", "$worker": "gpu0", "$device": "h100"}
#: Values that labels may have.
KNOWN = {
    "status": set(JobStatus),
    "strategy": set(Strategy),
    "to": set(Strategy),
    "outcome": {"delivered", "retried", "dead", "dropped"},
    "job": {"api", "scheduler", "worker", "flower"},
}
EXPRESSIONS = {name: rule["expr"] for name, rule in ALERTS.items()}
EXPRESSIONS |= {
    f"{panel['title']} {target['refId']}": target["expr"]
    for panel in BOARD["panels"]
    for target in panel.get("targets", [])
}


def filled(expression):
    for name, value in VALUES.items():
        expression = expression.replace(name, value)
    return expression


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    return asyncio.run(exposed(tmp_path_factory.mktemp("exposed")))


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_what_is_asked_for_is_served(name, served):
    asked = list(selectors(filled(EXPRESSIONS[name])))
    assert asked
    for each in asked:
        matchers = {m.name: m.value for m in each.matchers.matchers}
        job = served.get(matchers.get("job"), set[str]().union(*served.values()))
        assert each.name in job | OTHERS, each.name
        assert matchers.keys() <= labels()
        for label, known in KNOWN.items():
            assert set(matchers.get(label, "").split("|")) <= known | {""}, label
        if each.name == "atelier_redeliveries_total" and "reason" in matchers:
            assert matchers["reason"] in REDELIVERIES
    assert grouped(filled(EXPRESSIONS[name])) <= labels()


def test_every_alert_has_a_section_that_says_what_to_do():
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##)", OPERATIONS, re.MULTILINE | re.DOTALL))
    assert sections.keys() == ALERTS.keys()
    for name, text in sections.items():
        assert re.findall(r"^- \*\*(\w+)\*\*: \S", text, re.MULTILINE) == [
            "Means",
            "Check",
            "Cure",
        ], name


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_how_urgent_it_is_and_where_to_read_on(name):
    rule = ALERTS[name]
    assert rule["labels"] in ({"severity": "page"}, {"severity": "ticket"})
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["runbook"] == f"docs/operations.md#{name.lower()}"


@pytest.mark.parametrize("name", ["prometheus.yml", "prometheus.local.yml"])
def test_prometheus_reads_the_rules(name):
    assert yaml.safe_load((ROOT / "ops" / name).read_text())["rule_files"] == ["alerts.yml"]
    mounts = [v.split(":")[:2] for v in read_compose()["services"]["prometheus"]["volumes"]]
    assert ["./ops/alerts.yml", "/etc/prometheus/alerts.yml"] in mounts


def test_of_one_machine_the_api_alone_is_asked_which_shows_what_all_count():
    (job,) = yaml.safe_load((ROOT / "ops/prometheus.local.yml").read_text())["scrape_configs"]
    assert job["job_name"] == "api"


def test_every_variable_of_the_dashboard_is_filled_by_a_metric(served):
    variables = {each["name"]: each for each in BOARD["templating"]["list"]}
    assert variables.keys() >= {"fleet", "model", "worker"}
    for name, each in variables.items():
        if each["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", each["query"]).groups()
            assert any(metric in names for names in served.values())
            assert label in labels()
        used = json.dumps(BOARD["panels"])
        assert f"${name}" in used or f"${{{name}}}" in used
