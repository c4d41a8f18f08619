"""Prometheus' own tool evaluates the alerts: each burns for what it is about, none otherwise."""

import os
import shutil
import subprocess

import pytest
import yaml

from tests.map import ROOT
from tests.unit.ops.chart import of_kind, render

pytestmark = pytest.mark.integration

RULES = ROOT / "ops/alerts.yml"
NAMES = [
    rule["alert"]
    for group in yaml.load(RULES.read_text(), yaml.CSafeLoader)["groups"]
    for rule in group["rules"]
]
#: A fleet that is well, an hour and a half long, a sample a minute.
WELL = {
    'up{job="api",instance="a"}': "1x90",
    'up{job="worker",instance="w"}': "1x90",
    "atelier_store_up": "1x90",
    "atelier_archive_behind_seconds": "30x90",
    "atelier_upkeep_is_led": "1x90",
    'atelier_scheduler_is_leader{instance="s1"}': "1x90",
    'atelier_scheduler_is_leader{instance="s2"}': "0x90",
    'atelier_workers{instance="s1"}': "2x90",
    'atelier_workers{instance="s2"}': "0x90",
    'atelier_slo_violations_total{job="api",instance="a"}': "0+1x90",
    'atelier_jobs_total{job="api",instance="a",status="succeeded"}': "0+100x90",
    'atelier_jobs_total{job="api",instance="a",status="failed"}': "0+1x90",
    'atelier_oldest_waiting_seconds{job="api",queue="q"}': "5x90",
    'atelier_saturation{job="api"}': "0x90",
    'atelier_jobs_refused_total{job="api",reason="wait"}': "0x90",
    'atelier_plan_failures_total{reason="no workers"}': "1x90",
    'atelier_device_slowness{device_type="h100"}': "1.02x90",
    "atelier_jobs_dead_total": "3x90",
    'atelier_redeliveries_total{reason="reaped"}': "5x90",
    "atelier_fenced_writes_total": "1x90",
    "atelier_messages_unreadable_total": "0x90",
    'atelier_webhook_deliveries_total{outcome="dead"}': "7x90",
    "atelier_drifts_total": "1x90",
    'atelier_strategy{strategy="sm"}': "1x90",  # no latents are kept: nothing has switched
    'atelier_ranks_lost_total{instance="w"}': "0x90",
    'process_resident_memory_bytes{job="api",instance="a"}': "400000000x90",
}
#: What changes in it -> how, by the alert that is to burn.
ILL = {
    "ApiDown": {'up{job="api",instance="a"}': "0x90"},
    "StoreDown": {"atelier_store_up": "0x90"},
    "ArchiveBehind": {"atelier_archive_behind_seconds": "1000x90"},
    "NoUpkeep": {"atelier_upkeep_is_led": "0x90"},
    "NoLeader": {'atelier_scheduler_is_leader{instance="s1"}': "0x90"},
    "TwoLeaders": {'atelier_scheduler_is_leader{instance="s2"}': "1x90"},
    "NoWorkers": {'atelier_workers{instance="s1"}': "0x90"},
    "WorkerDown": {'up{job="worker",instance="w"}': "0x90"},
    "Late": {'atelier_slo_violations_total{job="api",instance="a"}': "0+10x90"},
    "Waiting": {'atelier_oldest_waiting_seconds{job="api",queue="q"}': "0+60x90"},
    "Saturated": {'atelier_saturation{job="api"}': "0.2x90"},
    "Refusing": {'atelier_jobs_refused_total{job="api",reason="wait"}': "0+60x90"},
    "PlanFails": {'atelier_plan_failures_total{reason="no workers"}': "0+6x90"},
    "SlowSteps": {'atelier_device_slowness{device_type="h100"}': "2x90"},
    "Failing": {'atelier_jobs_total{job="api",instance="a",status="failed"}': "0+10x90"},
    "Buried": {"atelier_jobs_dead_total": "3x60 4x29"},
    "WorkersDie": {'atelier_redeliveries_total{reason="reaped"}': "0+2x90"},
    "FencedWrites": {"atelier_fenced_writes_total": "0+1x90"},
    "ForeignMessages": {"atelier_messages_unreadable_total": "0x80 1x9"},
    # The first one of all: the series begins with it.
    "WebhooksFail": {'atelier_webhook_deliveries_total{outcome="dead"}': "_x60 1x29"},
    "QualityFell": {"atelier_drifts_total": "1x60 2x29"},
    "NoLatents": {'atelier_strategy_switches_total{to="sm"}': "_x60 1x29"},
    "RankLost": {'atelier_ranks_lost_total{instance="w"}': "0x80 1x9"},
    "ApiMemory": {'process_resident_memory_bytes{job="api",instance="a"}': "2000000000x90"},
}


@pytest.fixture(scope="module")
def promtool():
    found = shutil.which("promtool")
    if found is None:
        assert "CI" not in os.environ, "apt-get install prometheus"
        pytest.skip("no promtool: apt-get install prometheus")
    return found


def check(promtool, folder, series, alerts):
    """Let the tool say that of these series just these alerts burn at the end."""
    names = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in alerts]
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    check_value(promtool, folder, series, firing, names)


def check_value(promtool, folder, series, expression, samples):
    """Let the tool say that of these series an expression is so much at the end."""
    asked = {"expr": expression, "eval_time": "89m", "exp_samples": samples}
    test = {
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "promql_expr_test": [asked],
    }
    path = folder / "alerts.test.yml"
    whole = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}
    path.write_text(yaml.safe_dump(whole))
    ended = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_alert_is_tried():
    assert ILL.keys() == set(NAMES)


def test_nothing_burns_while_all_is_well(promtool, tmp_path):
    check(promtool, tmp_path, WELL, [])


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_burns_for_what_it_is_about_and_no_other_does(promtool, tmp_path, name):
    check(promtool, tmp_path, WELL | ILL[name], [name])


@pytest.mark.parametrize("reason", ["wait", "queue", "deadline"])
def test_whatever_the_service_has_no_room_for_counts_as_refused(promtool, tmp_path, reason):
    refused = {f'atelier_jobs_refused_total{{job="api",reason="{reason}"}}': "0+60x90"}
    check(promtool, tmp_path, WELL | refused, ["Refusing"])


@pytest.mark.parametrize("reason", ["jobs_per_s", "open_jobs", "images_a_day", "kept_bytes"])
def test_what_a_limit_of_a_tenant_refuses_wakes_nobody(promtool, tmp_path, reason):
    refused = {f'atelier_jobs_refused_total{{job="api",reason="{reason}"}}': "0+60x90"}
    check(promtool, tmp_path, WELL | refused, [])


def test_a_second_api_counts_nothing_twice(promtool, tmp_path):
    """Both read the same counters from the store."""
    second = {
        series.replace('instance="a"', 'instance="b"'): values
        for series, values in WELL.items()
        if 'instance="a"' in series
    }
    check(promtool, tmp_path, WELL | second, [])


def in_cell(series, name):
    """The same of a release in a namespace of its own."""
    return {
        f'{each[:-1]},namespace="{name}"}}'
        if each.endswith("}")
        else f'{each}{{namespace="{name}"}}': values
        for each, values in series.items()
    }


def test_cells_of_one_cluster_have_a_leader_each(promtool, tmp_path):
    check(promtool, tmp_path, in_cell(WELL, "eu") | in_cell(WELL, "us"), [])


@pytest.mark.parametrize("name", NAMES)
def test_a_cell_that_is_ill_beside_one_that_is_well_is_seen(promtool, tmp_path, name):
    check(promtool, tmp_path, in_cell(WELL, "eu") | in_cell(WELL | ILL[name], "us"), [name])


@pytest.mark.parametrize(("saturation", "wanted"), [(0, 0), (0.005, 0), (0.5, 2), (1, 10)])
def test_workers_are_asked_for_by_what_no_plan_serves_and_else_may_go(
    promtool, tmp_path, saturation, wanted
):
    (scaled,) = of_kind(render(), "ScaledObject").values()
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]
    series = {'atelier_saturation{namespace="default"}': f"{saturation}x90"}
    check_value(promtool, tmp_path, series, query, [{"labels": "{}", "value": wanted}])
