import importlib.util
import json
import re
from pathlib import Path

import pytest
import yaml
from sqlalchemy.engine import make_url

from cli.main import app as atelier
from core.settings import CLASSIFIER, PROMPTS, SCORER, Settings, VectorBackend
from core.tenants.limits import TenantLimits
from router.cells import parse_cells
from run.api import check_binding
from run.api import create_app as create_api
from run.scheduler import create_app as create_scheduler
from scheduler.profile.profile_file import read_measured
from storage.archive.connect import open_engine
from storage.redis.server import LISTED_BYTES
from tests.unit.ops.compose import COMPOSE, ROOT, example, read_compose

COMPOSED = read_compose()
EXAMPLE = (ROOT / "docker" / "env.example").read_text()
SERVICES = COMPOSED["services"]
#: What a checkout without weights may lack.
SHIPPED = ("./zoo/weights", "./zoo/classifier")
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
#: Services that run until they are stopped; the other is run once, by hand.
LASTING = {name: service for name, service in SERVICES.items() if service["restart"] != "no"}

#: Modules that write files -> who runs them so, and where: below `data_dir`, or aside.
WRITERS = {
    "api/intake/weights.py": (["api"], "tmp"),
    "cli/commands/profile.py": (["profile"], "data"),
    "storage/objects/directory.py": ([], "tmp"),  # objects are in S3
    "storage/objects/store.py": ([], "data"),
    "storage/vectors/index.py": ([], "data"),  # vectors are in Qdrant
    "classifier/files.py": (["scheduler", "cpu-worker"], "data"),
    "classifier/training/data.py": (["cpu-worker"], "tmp"),
    "worker/control/server/kept.py": (["control-worker"], "tmp"),
    "worker/process/shared_recordings.py": (["gpu-worker-0", "gpu-worker-1"], "data"),
    "worker/masking/cache.py": (["gpu-worker-0", "gpu-worker-1"], "data"),
    "worker/checkpoints/convert.py": ([], "tmp"),  # run by whoever adds a model, by hand
}


def environment(service):
    return service.get("environment", {})


STORES = {"REDIS_PASSWORD", "S3_ACCESS_KEY", "S3_SECRET_KEY"}
ARCHIVE = {"POSTGRES_PASSWORD"}
#: What each service is given of the secrets, and no more; as Kubernetes does it.
GIVEN = {
    "redis": {"REDIS_PASSWORD"},
    "postgres": ARCHIVE,
    "minio": {"S3_ACCESS_KEY", "S3_SECRET_KEY"},
    "qdrant": {"QDRANT_API_KEY"},
    "api": STORES | ARCHIVE | {"API_KEYS", "OPERATOR_KEYS", "WEBHOOK_SECRET"},
    "router": {"API_KEYS"},
    "scheduler": STORES | {"QDRANT_API_KEY"},
    "gpu-worker-0": STORES,
    "gpu-worker-1": STORES,
    "control-worker": STORES,
    "profile": set(),
    "cpu-worker": STORES | ARCHIVE | {"WEBHOOK_SECRET"},
    "upkeep": STORES | ARCHIVE,
    "flower": {"REDIS_PASSWORD", "FLOWER_AUTH"},
    "prometheus": set(),
    "grafana": {"GRAFANA_PASSWORD"},
}
SECRETS = set().union(*GIVEN.values())

PORTS = r"ATELIER_(API|SCHEDULER|METRICS)_PORT"
WORKER_IMAGE = (ROOT / "docker" / "worker.Dockerfile").read_text()


def settings_of(name, monkeypatch):
    for variable, value in environment(SERVICES[name]).items():
        monkeypatch.setenv(variable, value)
    return Settings()


def test_what_operators_may_leave_out_is_left_out_or_taken(monkeypatch):
    settings = settings_of("api", monkeypatch)
    assert (settings.model_aliases, settings.tenant_weights) == ({}, {})
    given = {
        "MODEL_ALIASES": '{"gpt-image-2": "shapes-xl"}',
        "TENANT_WEIGHTS": '{"shop": 2}',
        "TENANT_LIMITS": '{"burst": 20}',
    }
    told = read_compose(given)["services"]["api"]["environment"]
    for variable, value in told.items():
        monkeypatch.setenv(variable, value)
    assert Settings().model_aliases == {"gpt-image-2": "shapes-xl"}
    assert Settings().tenant_weights == {"shop": 2.0}
    assert Settings().tenant_limits == TenantLimits(burst=20)


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_gets_its_own_secrets_and_no_others(name):
    plain = {each: f"secret-{each.lower()}-0" for each in sorted(SECRETS)}
    told = json.dumps(read_compose(plain)["services"][name])
    assert {each for each, value in plain.items() if value in told} == GIVEN[name]


def test_every_secret_of_the_example_is_somebodys():
    named = re.findall(r"^#?(\w*(?:PASSWORD|SECRET|KEYS?|AUTH))=", EXAMPLE, re.M)
    assert set(named) == SECRETS


@pytest.mark.parametrize("name", OURS)
def test_every_command_names_a_module_that_exists(name):
    match SERVICES[name]["command"]:
        case ["python", "-m", module, *_]:
            assert importlib.util.find_spec(module)
        case ["atelier", command, *_]:
            assert command in {each.callback.__name__ for each in atelier.registered_commands}
        case other:
            pytest.fail(f"what is {other}?")


@pytest.mark.parametrize("name", OURS)
def test_every_variable_is_a_setting_and_has_a_value_that_works(name, monkeypatch):
    names = [each for each in environment(SERVICES[name]) if each.startswith("ATELIER_")]
    assert {each.removeprefix("ATELIER_").lower() for each in names} <= Settings.model_fields.keys()
    url = settings_of(name, monkeypatch).redis_url
    assert url.startswith("redis://atelier:") == ("REDIS_PASSWORD" in GIVEN[name])


def test_the_api_that_listens_beyond_loopback_has_keys(monkeypatch):
    settings = settings_of("api", monkeypatch)
    assert settings.api_host == "0.0.0.0"
    check_binding(settings)


def test_addresses_are_those_of_the_services(monkeypatch):
    api, scheduler = settings_of("api", monkeypatch), settings_of("scheduler", monkeypatch)
    assert api.scheduler_url == f"http://scheduler:{scheduler.scheduler_port}"
    assert f"{api.api_port}:{api.api_port}" in SERVICES["api"]["ports"]
    assert "@redis:6379/" in api.redis_url
    host, port = api.s3_endpoint.split(":")
    assert host in SERVICES["minio"]["networks"]["default"]["aliases"]
    assert f"127.0.0.1:{port}:{port}" in SERVICES["minio"]["ports"]


def test_api_and_workers_use_the_credentials_of_the_object_store(monkeypatch):
    minio = environment(SERVICES["minio"])
    for name in ("api", "gpu-worker-0", "upkeep"):
        settings = settings_of(name, monkeypatch)
        assert settings.s3_access_key == minio["MINIO_ROOT_USER"]
        assert settings.s3_secret_key.get_secret_value() == minio["MINIO_ROOT_PASSWORD"]


@pytest.mark.parametrize("name", ["api", "cpu-worker", "upkeep"])
def test_whoever_reads_the_archive_is_told_where_it_is_by_its_own_password(name, monkeypatch):
    archive = environment(SERVICES["postgres"])
    url = make_url(settings_of(name, monkeypatch).archive_url.get_secret_value())
    assert (url.host, url.port, url.database) == ("postgres", 5432, archive["POSTGRES_DB"])
    assert (url.username, url.password) == (archive["POSTGRES_USER"], archive["POSTGRES_PASSWORD"])
    assert open_engine(url.render_as_string(hide_password=False)).url.database == url.database


def test_the_scheduler_asks_the_index_with_its_key(monkeypatch):
    settings = settings_of("scheduler", monkeypatch)
    assert settings.vectors is VectorBackend.SERVER
    assert settings.qdrant_url == "http://qdrant:6333"
    key = environment(SERVICES["qdrant"])["QDRANT__SERVICE__API_KEY"]
    assert settings.qdrant_api_key.get_secret_value() == key


def test_the_router_that_is_started_beside_them_knows_them_as_the_cell_of_the_example(monkeypatch):
    settings = settings_of("router", monkeypatch)
    ((source, target, mode),) = mounts_of("router")
    assert (str(settings.cells_file.parent), mode) == (target, "ro")
    ((name, cell),) = parse_cells((ROOT / source / "cells.json").read_bytes()).items()
    assert f"#CELL={name}\n" in EXAMPLE
    assert cell.url == f"http://api:{settings.api_port}"
    assert SERVICES["router"]["profiles"] == ["cells"]
    assert f"{settings.router_port}:{settings.router_port}" in SERVICES["router"]["ports"]
    assert settings.router_host == "0.0.0.0"


def test_the_router_is_asked_whether_it_lives_and_not_whether_its_cells_do(monkeypatch):
    assert probed("router") == (settings_of("router", monkeypatch).router_port, "/healthz")


def probed(name):
    *_, url = SERVICES[name]["healthcheck"]["test"]
    port, path = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/.*)", url).groups()
    return int(port), path


def paths(app):
    """Ask the application itself: included routers are not flat."""
    return set(app.openapi()["paths"]) | {getattr(route, "path", "") for route in app.routes}


def test_the_api_is_asked_where_it_answers(monkeypatch):
    settings = settings_of("api", monkeypatch)
    port, path = probed("api")
    assert port == settings.api_port
    assert path in paths(create_api(settings))


def test_the_scheduler_is_asked_where_it_answers(monkeypatch, tmp_path):
    settings = settings_of("scheduler", monkeypatch).model_copy(update={"models_dir": tmp_path})
    port, path = probed("scheduler")
    assert port == settings.scheduler_port
    assert path in {route.path for route in create_scheduler(settings).routes}


@pytest.mark.parametrize("name", ["api", "control-worker"])
def test_whoever_reads_the_controlnets_has_them(name, monkeypatch):
    mounts = [volume.split(":") for volume in SERVICES[name]["volumes"]]
    settings = settings_of(name, monkeypatch)
    assert ["./zoo/adapters/controlnets", str(settings.controlnets_dir), "ro"] in mounts


@pytest.mark.parametrize("name", ["gpu-worker-0", "gpu-worker-1"])
def test_controlnet_workers_reach_a_worker_by_its_host_name(name, monkeypatch):
    assert settings_of(name, monkeypatch).control_host == SERVICES[name]["hostname"]


@pytest.mark.parametrize("name", ["gpu-worker-0", "gpu-worker-1", "control-worker"])
def test_workers_are_asked_where_they_serve_metrics(name, monkeypatch):
    assert probed(name) == (settings_of(name, monkeypatch).metrics_port, "/metrics")


@pytest.mark.parametrize("name", sorted(OURS.keys() & LASTING.keys()))
def test_every_program_of_a_health_check_is_in_the_image(name):
    service = SERVICES[name]
    dockerfile = (ROOT / service["build"]["dockerfile"]).read_text()
    _, program, *_ = service["healthcheck"]["test"]
    copied = re.findall(r"^COPY --chmod=755 docker/\S+ /usr/local/bin/(\w+)$", dockerfile, re.M)
    assert program in [*copied, "celery"]


@pytest.mark.parametrize(
    "name", ["api", "cpu-worker", "scheduler", "gpu-worker-0", "gpu-worker-1", "upkeep"]
)
def test_whoever_reads_the_models_has_them(name, monkeypatch):
    mounts = [volume.split(":") for volume in SERVICES[name]["volumes"]]
    settings = settings_of(name, monkeypatch)
    assert ["./zoo/weights", str(settings.models_dir), "ro"] in mounts


def test_what_scores_and_what_is_retrained_is_where_the_cpu_worker_looks(monkeypatch):
    settings = settings_of("cpu-worker", monkeypatch)
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["cpu-worker"]["volumes"])
    assert mounts["./zoo/scorers/shapes"] == str(settings.scorer_path)
    assert mounts["./zoo/classifier"] == str(settings.models_dir.parent / CLASSIFIER)


def test_what_a_profile_is_measured_with_stands_beside_the_models_and_is_in_the_repository():
    sources = {target: source for source, target, *_ in mounts_of("profile")}
    for name in (PROMPTS, SCORER):
        source = re.sub(r"\$\{\w+:-(.*)\}", r"\1", sources[f"/{name}"])
        assert (ROOT / source).exists(), source


def test_flower_is_asked_where_it_answers_and_asks_for_a_password():
    from flower.urls import handlers
    from tornado.web import URLSpec

    port, path = probed("flower")
    assert f"--port={port}" in SERVICES["flower"]["command"]
    rules = [handler if isinstance(handler, URLSpec) else URLSpec(*handler) for handler in handlers]
    assert any(rule.regex.fullmatch(path) for rule in rules)
    assert ":" in environment(SERVICES["flower"])["FLOWER_BASIC_AUTH"]


def test_the_cpu_worker_is_pinged_by_its_own_name(monkeypatch):
    service, settings = SERVICES["cpu-worker"], settings_of("cpu-worker", monkeypatch)
    test = service["healthcheck"]["test"]
    assert test[test.index("-d") + 1] == f"{settings.worker_name}@{service['hostname']}"


@pytest.mark.parametrize("name", ["api", "control-worker"])
def test_large_files_are_put_aside_on_disk(name):
    mounts = {target for _, target in writable(name)}
    assert environment(SERVICES[name])["TMPDIR"] in mounts
    assert environment(SERVICES[name])["TMPDIR"] not in SERVICES[name]["tmpfs"]


def mounts_of(name):
    return [volume.split(":") for volume in SERVICES[name].get("volumes", [])]


def writable(name):
    return [(mount[0], mount[1]) for mount in mounts_of(name) if mount[2:] != ["ro"]]


def test_every_module_that_writes_files_is_known():
    writes = re.compile(r"settings\.data_dir|data_dir or|import tempfile|from tempfile")
    sources = (
        p
        for folder in (
            "run",
            "api",
            "scheduler",
            "tasks",
            "worker",
            "classifier",
            "storage",
            "catalog",
            "core",
        )
        for p in (ROOT / folder).rglob("*.py")
    )
    found = {str(p.relative_to(ROOT)) for p in sources if writes.search(p.read_text())}
    assert found | {"cli/commands/profile.py"} == WRITERS.keys()


@pytest.mark.parametrize(
    ("name", "kind"),
    sorted({(name, kind) for names, kind in WRITERS.values() for name in names}),
)
def test_whoever_writes_files_has_a_place_for_them(name, kind, monkeypatch):
    settings = settings_of(name, monkeypatch)
    aside = environment(SERVICES[name]).get("TMPDIR", "/tmp")
    place = str(settings.data_dir) if kind == "data" else aside
    volumes, in_memory = {target for _, target in writable(name)}, SERVICES[name]["tmpfs"]
    assert place in volumes | {each.partition(":")[0] for each in in_memory}


@pytest.mark.parametrize("name", OURS)
def test_memory_in_place_of_a_folder_belongs_to_the_user_of_the_image(name):
    image = (ROOT / SERVICES[name]["build"]["dockerfile"]).read_text()
    (uid,) = re.findall(r"useradd .*--uid (\d+)", image)
    for path, _, options in (each.partition(":") for each in SERVICES[name]["tmpfs"]):
        assert path == "/tmp" or f"uid={uid}" in options.split(",")


def test_no_two_services_write_to_one_volume():
    written = [source for name in SERVICES for source, _ in writable(name)]
    assert len(written) == len(set(written))


def test_no_two_replicas_write_to_one_volume():
    for name, service in SERVICES.items():
        assert service.get("deploy", {}).get("replicas", 1) == 1 or not writable(name)


@pytest.mark.parametrize("name", ["scheduler", "gpu-worker-0", "gpu-worker-1"])
def test_whoever_reads_the_profile_has_it(name, monkeypatch, tmp_path):
    settings = settings_of(name, monkeypatch).model_copy(update={"data_dir": tmp_path})
    assert ["./zoo/profile.json", str(settings.profile_path), "ro"] in mounts_of(name)


def test_what_measures_prints_a_profile_that_can_be_read(monkeypatch, tmp_path):
    assert SERVICES["profile"]["command"] == ["atelier", "profile", "--json"]
    assert read_measured(ROOT / "zoo" / "profile.json").tau


def test_workers_can_build_kernels_and_run_them():
    assert re.search(r"apt-get install .*\bgcc\b", WORKER_IMAGE)
    for name in ("gpu-worker-0", "gpu-worker-1", "control-worker", "profile"):
        assert "exec" in SERVICES[name]["tmpfs"][0].split(":")[1].split(",")


@pytest.mark.parametrize("name", ["gpu-worker-0", "gpu-worker-1", "profile"])
def test_kernels_outlast_a_restart(name):
    caches = re.findall(r"\b(?:TORCHINDUCTOR|TRITON)_CACHE_DIR=(\S+)", WORKER_IMAGE)
    assert len(caches) == 2
    assert {str(Path(each).parent) for each in caches} <= {target for _, target in writable(name)}


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_can_take_all_memory_or_fill_the_disk_with_its_log(name):
    assert num_bytes(SERVICES[name]["mem_limit"]) > 0
    logging = SERVICES[name]["logging"]
    assert logging["driver"] == "json-file"
    assert num_bytes(logging["options"]["max-size"]) * int(logging["options"]["max-file"]) <= 2**27


def num_bytes(text):
    number, unit = re.fullmatch(r"(\d+)([kmg])b?", text).groups()
    return int(number) * 1024 ** ("kmg".index(unit) + 1)


def test_the_store_refuses_before_its_container_is_killed():
    script = SERVICES["redis"]["command"][-1]
    most = re.search(r"^maxmemory (\w+)$", script, re.MULTILINE)[1]
    said = {"maxmemory-policy noeviction", f"hash-max-listpack-value {LISTED_BYTES}"}
    assert said | {"latency-tracking no"} <= {*script.splitlines()}
    assert 2 * num_bytes(most) <= num_bytes(SERVICES["redis"]["mem_limit"])


def test_several_schedulers_run_and_are_reached_by_one_name(monkeypatch):
    assert SERVICES["scheduler"]["deploy"]["replicas"] > 1
    assert not {"ports", "container_name", "hostname"} & SERVICES["scheduler"].keys()
    assert settings_of("scheduler", monkeypatch).vectors is VectorBackend.SERVER  # shared


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_waited_for_exists_and_says_when_it_is_healthy(name):
    assert (name in LASTING) == ("test" in SERVICES[name]["healthcheck"])
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        assert wait["condition"] == "service_healthy"
        assert SERVICES[other]["healthcheck"]["test"]


def test_an_upgrade_by_the_page_restarts_every_service_of_ours():
    page = (ROOT / "docs" / "operations.md").read_text()
    restarted = re.findall(r"^docker compose up -d --no-deps (.+)$", page, re.M)
    lasting = {name for name in OURS.keys() & LASTING.keys() if "profiles" not in OURS[name]}
    assert {name for line in restarted for name in line.split()} == lasting


@pytest.mark.parametrize("name", SERVICES)
def test_every_volume_exists(name):
    for volume in SERVICES[name].get("volumes", []):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert source in SHIPPED or (ROOT / source).exists()
        else:
            assert source in COMPOSED["volumes"]


def test_every_named_volume_is_used():
    used = {v.split(":")[0] for s in SERVICES.values() for v in s.get("volumes", [])}
    assert COMPOSED["volumes"].keys() <= used


def test_every_worker_has_a_name_and_a_device_of_its_own():
    workers = [service for name, service in OURS.items() if name.startswith("gpu-worker")]
    names = [environment(worker)["ATELIER_WORKER_NAME"] for worker in workers]
    reservations = [w["deploy"]["resources"]["reservations"]["devices"] for w in workers]
    devices = [device["device_ids"][0] for (device,) in reservations]
    assert len(set(names)) == len(set(devices)) == len(workers) == 2
    assert all(device["driver"] == "nvidia" for (device,) in reservations)


def test_the_worker_of_the_gpu_that_controlnets_share_leaves_them_room(monkeypatch):
    shared, controlnets = (gpus_of(name) for name in ("gpu-worker-0", "control-worker"))
    assert shared == controlnets
    worker = settings_of("gpu-worker-0", monkeypatch)
    assert worker.reserved_gib == Settings().control_gib
    assert "#RESERVED_GIB=4\n" in EXAMPLE
    none = read_compose({"RESERVED_GIB": "0"})["services"]["gpu-worker-0"]
    assert environment(none)["ATELIER_RESERVED_GIB"] == "0"
    other = read_compose({"RESERVED_GIB_1": "4"})["services"]["gpu-worker-1"]
    assert environment(other)["ATELIER_RESERVED_GIB"] == "4"


def gpus_of(name):
    (device,) = SERVICES[name]["deploy"]["resources"]["reservations"]["devices"]
    return device["device_ids"]


@pytest.mark.parametrize("name", OURS)
def test_our_containers_have_no_privileges(name):
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", SERVICES)
def test_images_of_others_are_pinned(name):
    if name not in OURS:
        assert re.search(r":[^:]*\d+\.\d+|:RELEASE\.\d{4}", SERVICES[name]["image"])


def test_no_secret_is_in_the_file():
    raw = yaml.safe_load(COMPOSE.read_text())
    environments = [raw["x-environment"], *(environment(s) for s in raw["services"].values())]
    for variables in environments:
        for name, value in variables.items():
            if re.search(r"PASSWORD|SECRET|KEY|AUTH", name):
                assert value.startswith("${"), name


def test_the_example_of_secrets_holds_none():
    lines = (ROOT / "docker" / "env.example").read_text().splitlines()
    assert all(line.endswith("=") for line in lines if line and not line.startswith("#"))


def test_a_variable_that_is_missing_stops_compose_naming_it():
    required = set(re.findall(r"\$\{(\w+):\?", COMPOSE.read_text()))
    assert required <= example().keys()


def targets():
    """What Prometheus reads, as `service:port`; a name of several is looked up."""
    configs = yaml.safe_load((ROOT / "ops" / "prometheus.yml").read_text())["scrape_configs"]
    fixed = [t for c in configs for group in c.get("static_configs", []) for t in group["targets"]]
    looked_up = [
        (name, c) for each in configs for c in each.get("dns_sd_configs", []) for name in c["names"]
    ]
    assert all(config["type"] == "A" for _, config in looked_up)
    return [*fixed, *(f"{name}:{config['port']}" for name, config in looked_up)]


@pytest.mark.parametrize("target", targets())
def test_prometheus_reads_services_where_they_listen(target):
    name, port = target.split(":")
    variables = environment(SERVICES[name])
    listening = {v for k, v in variables.items() if re.fullmatch(r"ATELIER_\w+_PORT", k)}
    assert port in listening or f"--port={port}" in SERVICES[name]["command"]


@pytest.mark.parametrize("name", sorted(OURS.keys() & LASTING.keys()))
def test_every_port_with_metrics_is_read(name):
    ports = {v for k, v in environment(SERVICES[name]).items() if re.fullmatch(PORTS, k)}
    assert {f"{name}:{port}" for port in ports} <= set(targets())


@pytest.mark.parametrize("name", sorted(OURS.keys() & LASTING.keys()))
def test_every_worker_shows_metrics(name, monkeypatch):
    settings = settings_of(name, monkeypatch)
    if SERVICES[name]["command"][2] == "run.worker":
        assert (settings.metrics_host, settings.metrics_port) == ("0.0.0.0", 9100)


def test_grafana_finds_its_dashboards_and_prometheus():
    folder = ROOT / "ops" / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources/prometheus.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((folder / "dashboards/atelier.yml").read_text())["providers"]
    mounts = [volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"]]
    assert ["./ops/grafana/dashboards", provider["options"]["path"]] in mounts
    fleet, *_ = dashboard()["templating"]["list"]
    assert (fleet["type"], fleet["query"]) == ("datasource", source["type"])
    assert {p["datasource"]["uid"] for p in dashboard()["panels"]} == {f"${{{fleet['name']}}}"}


def dashboard():
    return json.loads((ROOT / "ops/grafana/dashboards/atelier.json").read_text())


def test_panels_do_not_overlap():
    cells = [
        (x, y)
        for panel in dashboard()["panels"]
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
