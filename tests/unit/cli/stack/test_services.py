from pathlib import Path

from cli.stack.datadir import make_secrets
from cli.stack.services import Ports, Stack, models_dir
from core.settings import Settings

PORTS = Ports(api=1, scheduler=2, store=3, flower=4)


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


def test_several_workers_on_gpus_have_one_each(tmp_path):
    found = services(a_stack(tmp_path, Settings(device="cuda")))
    assert found["worker-2"].env["ATELIER_DEVICE"] == "cuda:1"


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


def test_a_worker_is_not_killed_while_it_may_finish_jobs(tmp_path):
    found = services(a_stack(tmp_path, Settings(shutdown_s=60.0)))
    assert found["worker-1"].stop_s > 60.0
