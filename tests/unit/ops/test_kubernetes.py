"""The chart is valid, says what the code and compose.yaml say, and gives nobody too much."""

import importlib.util
import json
import re
import tomllib

import kubernetes_validate
import pytest
import yaml
from prometheus_client import REGISTRY

from core.settings import Settings, VectorBackend
from core.telemetry import metrics
from router.cells import Cell, parse_cells
from run.api import check_binding
from tests.documents.pages import blocks
from tests.unit.ops.chart import CHART, FIELDS, PLAIN, RELEASE, SECRETS, of_kind, pods, render
from tests.unit.ops.compose import ROOT, read_compose
from tests.unit.ops.imports import reached, source_of
from tests.unit.ops.test_compose import WORKER_IMAGE, WRITERS, num_bytes

KUBERNETES = ("1.29", "1.34")
#: Kinds of other projects, of which there are no schemas at hand.
OF_OTHERS = {"ScaledObject", "PodMonitor", "PrometheusRule"}

#: Values of a release that is a cell and has the router, too.
CELLS = {
    "cell": "eu",
    "router": {"enabled": True, "cells": {"eu": {"url": "http://atelier-api:8000", "weight": 2.0}}},
}

DEFAULT = render()
FULL = render(
    **CELLS,
    ingress={"enabled": True, "className": "nginx", "tlsSecret": "tls"},
    models={"loader": {"enabled": True}, "storageClass": "shared"},
    gpuWorkers={
        "t4": {
            "nodeSelector": {},
            "gpuResource": "nvidia.com/gpu",
            "replicas": {"min": 0, "max": 3},
            "settings": {"ATELIER_MAX_SLOTS": "4"},
            "shm": "1Gi",
            "disk": "5Gi",
            "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "16Gi"}},
        }
    },
    image={"tag": "v1.2.3", "pullSecrets": [{"name": "registry"}]},
)
LEAN = render(
    autoscaling={"enabled": False},
    monitoring={"enabled": False},
    networkPolicies={"enabled": False},
    flower={"enabled": False},
    controlWorkers={"replicas": 0},
    models={"existingClaim": "ours"},
)
PODS = pods(render(**CELLS))
#: Pods -> services of compose.yaml.
SAME = {
    "api": "api",
    "router": "router",
    "scheduler": "scheduler",
    "gpu-a100": "gpu-worker-1",  # which shares its GPU with no ControlNets either
    "control": "control-worker",
    "cpu": "cpu-worker",
    "upkeep": "upkeep",
    "flower": "flower",
}
COMPOSED = read_compose()["services"]
STORES = {"redis-password", "s3-access-key", "s3-secret-key"}
ARCHIVE = {"postgres-password"}
#: What each process is given of the secret, and no more.
GIVEN = {
    "api": STORES | ARCHIVE | {"api-keys", "operator-keys", "webhook-secret"},
    "router": {"api-keys"},
    "scheduler": STORES | {"qdrant-api-key"},
    "gpu-a100": STORES,
    "control": STORES,
    "cpu": STORES | ARCHIVE | {"webhook-secret"},
    "upkeep": STORES | ARCHIVE,
    "flower": {"redis-password", "flower-auth"},
}


def settings_of(name, monkeypatch):
    for variable, value in PODS[name].environment.items():
        monkeypatch.setenv(variable, value)
    return Settings()


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("manifests", [DEFAULT, FULL, LEAN], ids=["default", "full", "lean"])
def test_what_is_rendered_is_valid(manifests, version):
    for each in manifests:
        if each["kind"] not in OF_OTHERS:
            kubernetes_validate.validate(each, version, strict=True)


def test_the_plain_manifests_are_the_chart_as_it_is():
    values = yaml.safe_load((PLAIN.parent / "plain.yaml").read_text())
    assert [each for each in yaml.load_all(PLAIN.read_text(), yaml.CSafeLoader) if each] == render(
        **values
    )


def test_alerts_and_dashboard_are_those_of_the_repository():
    (alerts,) = of_kind(DEFAULT, "PrometheusRule").values()
    assert alerts["spec"] == yaml.safe_load((ROOT / "ops" / "alerts.yml").read_text())
    dashboard = of_kind(DEFAULT, "ConfigMap")["dashboard"]["data"]["atelier.json"]
    shown = ROOT / "ops" / "grafana" / "dashboards" / "atelier.json"
    assert json.loads(dashboard) == json.loads(shown.read_text())


def test_the_chart_runs_what_compose_runs():
    assert set(PODS) == set(SAME)
    ours = {name for name, service in COMPOSED.items() if "build" in service}
    assert ours - set(SAME.values()) == {"gpu-worker-0", "profile"}


@pytest.mark.parametrize("name", SAME)
def test_commands_are_those_of_compose_and_there(name):
    python, flag, module, *rest = PODS[name].container["command"]
    assert (python, flag) == ("python", "-m")
    assert importlib.util.find_spec(module)
    assert COMPOSED[SAME[name]]["command"][: 3 + len(rest)] == [python, flag, module, *rest]


@pytest.mark.parametrize("name", SAME)
def test_images_are_built_from_a_dockerfile_of_ours(name):
    image = re.search(r"/atelier-(\w+):", PODS[name].container["image"])[1]
    assert COMPOSED[SAME[name]]["build"]["dockerfile"] == f"docker/{image}.Dockerfile"
    assert (ROOT / "docker" / f"{image}.Dockerfile").exists()


@pytest.mark.parametrize("name", SAME)
def test_without_a_tag_images_are_those_of_this_version_as_a_release_pushes_them(name):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    pushed = (ROOT / ".github/workflows/images.yml").read_text()
    assert "github.ref_name" in pushed and 'tags: ["v*"]' in pushed
    assert PODS[name].container["image"].endswith(f":v{version}")


@pytest.mark.parametrize("name", SAME)
def test_every_variable_is_a_setting_and_what_compose_sets_is_set(name, monkeypatch):
    found = PODS[name].environment
    ours = {each for each in found if each.startswith("ATELIER_")}
    assert {each.removeprefix("ATELIER_").lower() for each in ours} <= Settings.model_fields.keys()
    settings = settings_of(name, monkeypatch)
    for variable, value in COMPOSED[SAME[name]]["environment"].items():
        if variable.startswith("ATELIER_") and variable not in found:
            monkeypatch.setenv(variable, value)
            assert Settings() == settings, f"{variable} is set in compose.yaml"


@pytest.mark.parametrize("name", SAME)
def test_each_process_gets_its_own_secrets_and_no_others(name):
    assert PODS[name].secrets == GIVEN[name]
    assert set().union(*GIVEN.values()) == set(SECRETS)
    plain = [each for each in PODS[name].variables.values() if "value" in each]
    assert not [
        each["name"]
        for each in plain
        if re.search(r"PASSWORD|SECRET|KEY|AUTH", each["name"]) or "password" in each["value"]
    ]


def test_the_api_that_listens_beyond_loopback_has_keys(monkeypatch):
    settings = settings_of("api", monkeypatch)
    assert settings.api_host == "0.0.0.0"
    check_binding(settings)


def test_addresses_are_those_of_the_services(monkeypatch):
    services = of_kind(DEFAULT, "Service")
    port = services["scheduler"]["spec"]["ports"][0]["port"]
    settings = settings_of("api", monkeypatch)
    assert settings.scheduler_url == f"http://{RELEASE}-scheduler:{port}"
    assert settings.redis_url == f"redis://atelier:{SECRETS['redis-password']}@redis:6379/0"
    archive = settings.archive_url.get_secret_value()
    assert archive == COMPOSED["api"]["environment"]["ATELIER_ARCHIVE_URL"]
    assert settings_of("scheduler", monkeypatch).vectors is VectorBackend.SERVER  # shared


def test_the_router_is_there_if_it_is_asked_for_and_knows_the_cells_that_are_named(monkeypatch):
    assert set(PODS) - set(pods(DEFAULT)) == {"router"}
    settings, mounts = settings_of("router", monkeypatch), PODS["router"].container["volumeMounts"]
    assert {"name": "cells", "mountPath": "/cells", "readOnly": True} in mounts
    told = of_kind(FULL, "ConfigMap")["cells"]["data"][settings.cells_file.name]
    assert str(settings.cells_file.parent) == "/cells"
    (cell,) = parse_cells(told.encode()).items()
    assert cell == ("eu", Cell(url="http://atelier-api:8000", weight=2.0))
    assert settings.router_host == "0.0.0.0"
    assert settings_of("upkeep", monkeypatch).cell == "eu"


def test_the_ingress_reaches_the_router_and_only_the_router_and_it_reach_the_api_of_a_cell():
    (ingress,) = of_kind(FULL, "Ingress").values()
    (path,) = ingress["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["name"] == f"{RELEASE}-router"
    policies = of_kind(FULL, "NetworkPolicy")
    (rule,) = policies["api"]["spec"]["ingress"]
    selected = [
        peer["podSelector"]["matchLabels"] for peer in rule["from"] if "podSelector" in peer
    ]
    assert [each["app.kubernetes.io/component"] for each in selected] == ["router"]
    assert selected[0].items() <= PODS["router"].labels.items()
    (rule,) = of_kind(DEFAULT, "NetworkPolicy")["api"]["spec"]["ingress"]
    assert not [peer for peer in rule["from"] if "podSelector" in peer]
    (rule,) = policies["router"]["spec"]["ingress"]
    assert rule["ports"] == [{"port": "http"}]


def test_whoever_asks_the_scheduler_reaches_it_and_nobody_else():
    (rule,) = of_kind(FULL, "NetworkPolicy")["scheduler"]["spec"]["ingress"]
    selected = [
        peer["podSelector"]["matchLabels"] for peer in rule["from"] if "podSelector" in peer
    ]
    names = [each["app.kubernetes.io/component"] for each in selected]
    assert names == [name for name in SAME if asks_the_scheduler(name)] == ["api", "upkeep"]
    for name, labels in zip(names, selected, strict=True):
        assert labels.items() <= PODS[name].labels.items()


def asks_the_scheduler(name):
    """Look into every module that the process reaches."""
    ours, _ = reached(PODS[name].container["command"][2])
    return any("settings.scheduler_url" in source_of(each).read_text() for each in ours)


def test_the_ingress_of_the_page_lets_the_largest_upload_through():
    shown = [each for each in blocks(ROOT / "docs/kubernetes.md") if each.language == "yaml"]
    values = yaml.safe_load(shown[0].text)
    manifests = render(ingress=values["ingress"], settings=values["settings"])
    (ingress,) = of_kind(manifests, "Ingress").values()
    most = ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
    assert num_bytes(most) >= max(Settings().max_controlnet_bytes, Settings().max_lora_bytes)
    assert "FORWARDED_ALLOW_IPS" in pods(manifests)["api"].environment


def test_a_router_takes_bodies_as_large_as_its_cells_do():
    larger = pods(render(**CELLS, settings={"ATELIER_MAX_BODY_BYTES": "33554432"}))
    for name in ("router", "api"):
        assert larger[name].environment["ATELIER_MAX_BODY_BYTES"] == "33554432"


def test_as_many_routers_run_as_are_asked_for_and_one_goes_at_a_time():
    assert of_kind(FULL, "Deployment")["router"]["spec"]["replicas"] == 2
    assert of_kind(FULL, "PodDisruptionBudget")["router"]["spec"]["maxUnavailable"] == 1
    assert "router" not in of_kind(DEFAULT, "Deployment", "Service", "PodDisruptionBudget")


def test_without_an_archive_nobody_is_told_of_one():
    without = pods(render(stores={"archiveUrl": ""}))
    assert [name for name, pod in without.items() if "postgres-password" in pod.secrets] == []
    assert "ATELIER_ARCHIVE_URL" not in without["upkeep"].environment


@pytest.mark.parametrize("name", SAME)
def test_processes_are_asked_where_they_listen(name, monkeypatch):
    settings, pod = settings_of(name, monkeypatch), PODS[name]
    listens = {
        "api": {"http": settings.api_port},
        "router": {"http": settings.router_port},
        "scheduler": {"http": settings.scheduler_port},
        "flower": {"http": 5555},
        "upkeep": {},
    }
    assert pod.ports == listens.get(name, {"metrics": settings.metrics_port})
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if asked := pod.container.get(probe, {}).get("httpGet"):
            assert asked["port"] in pod.ports
            test = " ".join(COMPOSED[SAME[name]]["healthcheck"]["test"])
            assert asked["path"] in test


@pytest.mark.parametrize("name", ["api", "router"])
def test_a_store_or_a_fleet_that_is_away_ends_no_process_and_hides_none(name):
    for probe in ("livenessProbe", "readinessProbe"):  # what is there is read on
        assert PODS[name].container[probe]["httpGet"]["path"] == "/healthz"


@pytest.mark.parametrize("manifests", [DEFAULT, FULL, LEAN], ids=["default", "full", "lean"])
def test_pods_have_no_privileges(manifests):
    for pod in pods(manifests).values():
        assert pod.spec["automountServiceAccountToken"] is False
        assert pod.spec["securityContext"]["runAsNonRoot"] is True
        assert str(pod.spec["securityContext"]["runAsUser"]) in WORKER_IMAGE
        held = pod.container["securityContext"]
        assert held["readOnlyRootFilesystem"] and not held["allowPrivilegeEscalation"]
        assert held["capabilities"]["drop"] == ["ALL"]
        assert pod.container["resources"]["limits"]["memory"]


@pytest.mark.parametrize(
    ("name", "kind"),
    sorted(
        (name, kind)
        for names, kind in WRITERS.values()
        for name, service in SAME.items()
        if service in names
    ),
)
def test_whoever_writes_files_has_a_place_for_them(name, kind, monkeypatch):
    settings, pod = settings_of(name, monkeypatch), PODS[name]
    place = str(settings.data_dir) if kind == "data" else pod.environment.get("TMPDIR", "/tmp")
    assert place in pod.writable
    assert kind == "data" or name not in ("api", "control") or not pod.in_memory(place)


def test_what_is_recorded_of_templates_outlasts_a_restart():
    assert PODS["gpu-a100"].claims == ("data",)


@pytest.mark.parametrize("name", ["gpu-a100", "control"])
def test_workers_have_a_gpu_shared_memory_and_a_name_that_is_theirs(name):
    pod = PODS[name]
    assert pod.container["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert pod.in_memory("/dev/shm") and not pod.in_memory("/tmp")
    assert pod.environment["ATELIER_WORKER_NAME"] == FIELDS["metadata.name"]
    assert pod.environment["ATELIER_CONTROL_HOST"] == FIELDS["status.podIP"]


def test_no_pod_waits_for_the_gpu_of_the_one_that_it_replaces():
    found = {
        name: each["spec"]
        for name, each in of_kind(DEFAULT, "Deployment").items()
        if "nvidia.com/gpu" in PODS[name].container["resources"]["limits"]
    }
    assert found
    for spec in found.values():
        assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_an_upgrade_leaves_workers_time_to_load_a_model():
    for each in of_kind(FULL, "StatefulSet").values():
        assert each["spec"]["minReadySeconds"] == 60


def test_pods_are_given_as_long_to_end_as_in_compose():
    for name in ("gpu-a100", "control"):
        assert COMPOSED[SAME[name]]["stop_grace_period"] == "90s"
        assert PODS[name].spec["terminationGracePeriodSeconds"] == 90


@pytest.mark.parametrize("manifests", [DEFAULT, FULL, LEAN], ids=["default", "full", "lean"])
def test_what_selects_pods_finds_some(manifests):
    labels = [pod.labels for pod in pods(manifests).values()]

    def finds(selector):
        wanted = selector.get("matchLabels", selector)
        return any(wanted.items() <= each.items() for each in labels)

    for each in of_kind(manifests, "Service").values():
        assert finds(each["spec"]["selector"])
    for each in of_kind(manifests, "PodDisruptionBudget", "PodMonitor").values():
        assert finds(each["spec"]["selector"]), each["metadata"]["name"]
    for each in of_kind(manifests, "NetworkPolicy").values():
        assert finds(each["spec"]["podSelector"]), each["metadata"]["name"]


@pytest.mark.parametrize("manifests", [DEFAULT, FULL], ids=["default", "full"])
def test_what_scales_something_scales_what_is_there(manifests):
    for each in of_kind(manifests, "HorizontalPodAutoscaler", "ScaledObject").values():
        target = each["spec"]["scaleTargetRef"]
        found = of_kind(manifests, target["kind"])[target["name"].removeprefix(f"{RELEASE}-")]
        assert "replicas" not in found["spec"], "who scales would be overruled at each upgrade"
    assert "replicas" in of_kind(LEAN, "StatefulSet")["gpu-a100"]["spec"]


def test_workers_are_scaled_by_metrics_that_are_there():
    known = {metric.name for metric in REGISTRY.collect()}
    assert metrics.step_time is not None
    (scaled,) = of_kind(DEFAULT, "ScaledObject").values()
    for trigger in scaled["spec"]["triggers"]:
        (name,) = set(re.findall(r"atelier_\w+", trigger["metadata"]["query"].split("pod=~")[0]))
        assert name.removesuffix("_sum") in known


@pytest.mark.parametrize("manifests", [DEFAULT, FULL], ids=["default", "full"])
def test_prometheus_reaches_what_it_is_told_to_ask(manifests):
    policies = of_kind(manifests, "NetworkPolicy").values()
    for monitor in of_kind(manifests, "PodMonitor").values():
        asked = monitor["spec"]["selector"]["matchLabels"].items()
        [endpoint] = monitor["spec"]["podMetricsEndpoints"]
        ports = [
            port["port"]
            for policy in policies
            for rule in policy["spec"].get("ingress", [])
            if policy["spec"]["podSelector"].get("matchLabels", {}).items() <= asked
            and "matchExpressions" not in policy["spec"]["podSelector"]
            and any(names_monitoring(peer) for peer in rule["from"])
            for port in rule["ports"]
        ]
        assert endpoint["port"] in ports, monitor["metadata"]["name"]


def names_monitoring(peer):
    labels = peer.get("namespaceSelector", {}).get("matchLabels", {})
    return labels.get("kubernetes.io/metadata.name") == "monitoring"


def test_every_value_is_used():
    text = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    values = (CHART / "values.yaml").read_text()
    for name in re.findall(r"^(\w+):", values, re.M):
        assert f".Values.{name}" in text, name
