"""The chart's pods as processes: images of every kind, before and after each was restarted."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.lean import BEST
from tests.e2e.test_production import LORA, Customer, bodies, plain_lines, wrong_writes
from tests.production import ROOT, composed, has_servers, running
from tests.unit.api.pictures import a_photo
from tests.unit.ops.chart import RELEASE, Pod, pods, render

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not has_servers() and "CI" not in os.environ,
        reason="apt-get install redis-server postgresql",
    ),
]

NUM_JOBS = 6
#: What stands beside the models on the volume of all pods -> where it is in the repository.
BESIDE = {
    "profile.json": "zoo/profile.json",
    "classifier": "zoo/classifier",
    "scorers": "zoo/scorers",
    "controlnets": "zoo/adapters/controlnets",
}


def the_volume(folder: Path) -> Path:
    """Lay out what a loader fetches."""
    (folder / "models").mkdir(parents=True)
    (folder / "models" / BEST.name).symlink_to(BEST)
    for name, source in BESIDE.items():
        (folder / name).symlink_to(ROOT / source)
    return folder


def as_service(name: str, pod: Pod, volume: Path) -> dict[str, object]:
    """Write a pod as compose.yaml writes a service."""
    image = pod.container["image"].split("/atelier-")[1].split(":")[0]
    probe = pod.container["livenessProbe"]
    if "httpGet" in probe:
        port, path = pod.ports[probe["httpGet"]["port"]], probe["httpGet"]["path"]
        check = ["CMD", "probe", f"http://127.0.0.1:{port}{path}"]
    else:
        check = ["CMD", *probe["exec"]["command"]]
    return {
        "image": f"atelier-{image}",
        "build": {"dockerfile": f"docker/{image}.Dockerfile"},
        "hostname": name,
        "command": pod.container["command"],
        "environment": pod.environment | {"ATELIER_WORKER_NAME": f"{name}-0"},
        "volumes": [f"{volume}:/atelier:ro"],
        "tmpfs": sorted(pod.writable),
        "read_only": True,
        "healthcheck": {"test": check},
        "depends_on": {"redis": {}, "postgres": {}, "minio": {}},
        "deploy": {"replicas": 2 if name == f"{RELEASE}-scheduler" else 1},
        "stop_grace_period": f"{pod.spec.get('terminationGracePeriodSeconds', 30)}s",
    }


def services(url: str, volume: Path) -> dict[str, dict[str, object]]:
    """Read the chart, beside the stores of compose.yaml."""
    s3 = {"endpoint": "s3.localhost:9000", "bucket": "atelier", "isSecure": False}
    manifests = render(publicUrl=url, stores={"s3": s3})
    names = ("redis", "postgres", "minio")
    stores = {name: each for name, each in composed({}).items() if name in names}
    found = pods(manifests).items()
    ours = {
        f"{RELEASE}-{name}": as_service(f"{RELEASE}-{name}", pod, volume) for name, pod in found
    }
    return {**stores, **ours}


def test_the_charts_processes_make_images_and_each_may_be_restarted(tmp_path):
    volume = the_volume(tmp_path / "volume")
    with running(tmp_path / "here", lambda url: services(url, volume)) as service:
        service.start()
        with closing(Customer(service, api=f"{RELEASE}-api")) as customer:
            template = customer.keep("templates", "image/png", a_photo())
            lora = customer.keep("loras", "application/octet-stream", LORA.read_bytes())
            asked = list(bodies(template, lora))[:NUM_JOBS]
            ends = [customer.end_of(customer.submit(body)) for body in asked]
            ours = [each for each in service.containers if "build" in each.service]
            for container in ours:
                service.restart(container)
                ends.append(customer.end_of(customer.submit(asked[0])))
        assert [job for job in ends if job["status"] != "succeeded"] == []
        assert [each.name for each in service.containers if each.was_killed] == []
        assert wrong_writes(service) == {}
        assert plain_lines(service) == []
