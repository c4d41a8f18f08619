import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.stack.datadir import make_secrets
from cli.stack.services import Ports, Stack, models_dir, worker_names
from core.errors import ConfigurationError
from core.settings import Settings
from tests.unit.cli.stack.test_probes import FULL, serving

METRICS = {"cpu": 5, "control": 6, "worker-1": 7, "worker-2": 8, "worker-3": 9, "worker-4": 10}
PORTS = Ports(api=1, scheduler=2, store=3, flower=4, metrics=METRICS)


def a_stack(tmp_path, settings=None, workers=2):
    return Stack(
        data_dir=tmp_path,
        ports=PORTS,
        secrets=make_secrets(),
        workers=workers,
        settings=settings or Settings(),
    )


def services(stack):
    return {service.name: service for stage in stack.stages() for service in stage}


def test_workers_stop_first_and_the_store_last(tmp_path):
    stages = [[service.name for service in stage] for stage in a_stack(tmp_path).stages()]
    assert stages[0] == ["store"]
    assert stages[-1] == ["worker-1", "worker-2"]


def test_every_variable_given_is_a_setting(tmp_path):
    for service in services(a_stack(tmp_path)).values():
        names = [name for name in service.env if name.startswith("ATELIER_")]
        assert {
            name.removeprefix("ATELIER_").lower() for name in names
        } <= Settings.model_fields.keys()


def test_every_worker_has_a_name_and_one_thread(tmp_path):
    found = services(a_stack(tmp_path))
    for name in ("worker-1", "worker-2", "cpu"):
        assert found[name].env["ATELIER_WORKER_NAME"] == name
        assert found[name].env["OMP_NUM_THREADS"] == "1"


def metrics_of(stack):
    return json.loads(services(stack)["api"].env["ATELIER_METRICS_OF"])


def test_every_worker_has_a_port_for_its_metrics_whatever_the_operator_said(tmp_path):
    found = services(a_stack(tmp_path, Settings(metrics_port=9100, metrics_host="0.0.0.0")))
    for name in ("worker-1", "worker-2", "cpu", "control"):
        assert found[name].env["ATELIER_METRICS_PORT"] == str(METRICS[name])
        assert found[name].env["ATELIER_METRICS_HOST"] == "127.0.0.1"


def test_the_api_shows_the_metrics_of_scheduler_and_workers(tmp_path):
    shown = [f"http://127.0.0.1:{port}/metrics" for port in (2, 5, 6, 7, 8)]
    assert metrics_of(a_stack(tmp_path)) == shown
    without = a_stack(tmp_path, Settings(controlnets_dir=tmp_path))
    assert metrics_of(without) == [shown[0], shown[1], *shown[3:]]


def test_every_worker_that_may_run_is_named(tmp_path):
    found = services(a_stack(tmp_path))
    assert {name for name in found if "run.worker" in found[name].command} == {*worker_names(2)}


@pytest.fixture
def gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2,5")


def seen(stack):
    found = services(stack)
    return {name: each.env.get("CUDA_VISIBLE_DEVICES") for name, each in found.items()}


def test_several_workers_on_gpus_have_one_each_and_controlnets_what_is_left(tmp_path, gpus):
    found = seen(a_stack(tmp_path, Settings(device="cuda")))
    assert (found["worker-1"], found["worker-2"], found["control"]) == ("0", "2", "5")
    found = seen(a_stack(tmp_path, Settings(device="cuda"), workers=3))
    assert (found["worker-3"], found["control"]) == ("5", "5")


def test_a_worker_leaves_room_for_controlnets_on_its_gpu(tmp_path, gpus):
    found = services(a_stack(tmp_path, Settings(device="cuda", control_gib=3.0), workers=3))
    kept = {name: each.env.get("ATELIER_RESERVED_GIB") for name, each in found.items()}
    assert (kept["worker-1"], kept["worker-3"]) == (None, "3.0")


def test_a_worker_alone_sees_all_gpus(tmp_path, gpus):
    assert seen(a_stack(tmp_path, Settings(device="cuda"), workers=1))["worker-1"] is None


def test_workers_of_two_ranks_have_two_gpus_each(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    settings = Settings(device="cuda", second_device="cuda:1")
    found = seen(a_stack(tmp_path, settings))
    assert (found["worker-1"], found["worker-2"]) == ("0,1", "2,3")


def test_more_workers_than_gpus_are_refused_with_how_many_there_are(tmp_path, gpus):
    with pytest.raises(ConfigurationError, match="this machine has 3"):
        services(a_stack(tmp_path, Settings(device="cuda"), workers=4))


def test_workers_on_a_cpu_share_its_memory_and_its_cores(tmp_path):
    alone = services(a_stack(tmp_path, workers=1))["worker-1"].env
    many = services(a_stack(tmp_path, workers=4))["worker-4"].env
    assert float(many["ATELIER_MEMORY_GIB"]) == pytest.approx(
        float(alone["ATELIER_MEMORY_GIB"]) / 4, abs=0.01
    )
    assert int(many["ATELIER_TORCH_THREADS"]) <= int(alone["ATELIER_TORCH_THREADS"])
    assert int(many["ATELIER_TORCH_THREADS"]) >= 1


def test_what_a_worker_is_given_is_given_to_each(tmp_path):
    found = services(a_stack(tmp_path, Settings(memory_gib=3.0, torch_threads=2)))
    given = found["worker-2"].env.keys()
    assert not {"ATELIER_MEMORY_GIB", "ATELIER_TORCH_THREADS"} & given


def test_no_secret_is_in_a_command_line(tmp_path):
    stack = a_stack(tmp_path)
    secrets = stack.secrets
    words = " ".join(word for s in services(stack).values() for word in s.command)
    for secret in (secrets.url_secret, secrets.webhook_secret, secrets.flower_auth):
        assert secret not in words


def test_what_the_operator_set_stands(tmp_path):
    settings = Settings(url_secret="mine", public_url="https://images.example.com")
    env = a_stack(tmp_path, settings).env
    assert env["ATELIER_URL_SECRET"] == "mine"
    assert env["ATELIER_PUBLIC_URL"] == "https://images.example.com"


def test_models_are_found_wherever_the_command_is_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert models_dir(Settings()) == Path(__file__).parents[4] / "zoo" / "weights"
    assert models_dir(Settings(models_dir=Path("mine"))) == tmp_path / "mine"


def test_controlnets_have_a_worker_where_there_are_any(tmp_path):
    found = services(a_stack(tmp_path))
    assert found["control"].command[-1] == "--control"
    assert "control" not in services(a_stack(tmp_path, Settings(controlnets_dir=tmp_path)))


def test_what_can_be_asked_is_asked_for_its_health_while_it_runs(tmp_path):
    found = services(a_stack(tmp_path))
    asked = {name for name, service in found.items() if service.is_healthy}
    assert asked == {"store", "scheduler", "api", "flower", "upkeep", "worker-1", "worker-2"}


def test_what_can_be_asked_is_waited_for(tmp_path):
    found = services(a_stack(tmp_path))
    assert {name for name, service in found.items() if not service.is_ready} == {"cpu", "control"}


async def test_a_store_whose_disk_is_full_is_left_alone(tmp_path):
    async with serving(b"", FULL) as port:
        stack = a_stack(tmp_path)
        found = services(replace(stack, ports=replace(stack.ports, store=port)))
        assert await found["store"].is_healthy()
        assert await found["upkeep"].is_healthy() is None
        assert not await found["store"].is_ready()


def test_a_worker_is_not_killed_while_it_may_finish_jobs(tmp_path):
    found = services(a_stack(tmp_path, Settings(shutdown_s=60.0)))
    assert found["worker-1"].stop_s > 60.0


def test_a_service_with_keys_has_one_by_which_its_fleet_is_seen(tmp_path):
    for settings in (Settings(api_keys={"k": "acme"}), Settings(operator_keys=("boss",))):
        stack = a_stack(tmp_path, settings)
        key = stack.headers["Authorization"].removeprefix("Bearer ")
        passed = json.loads(services(stack)["api"].env["ATELIER_OPERATOR_KEYS"])
        assert passed == [*settings.operator_keys, key]
        assert key == stack.secrets.operator_key


def test_a_service_without_keys_gets_none(tmp_path):
    stack = a_stack(tmp_path)
    assert stack.headers == {}
    assert services(stack)["api"].env["ATELIER_OPERATOR_KEYS"] == "[]"
