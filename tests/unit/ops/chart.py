"""The Helm chart as the tests read it: rendered by Helm, pods as processes."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.unit.ops.compose import ROOT, example

CHART = ROOT / "kubernetes" / "chart"
PLAIN = ROOT / "kubernetes" / "atelier.yaml"
HELM = Path(sys.executable).parent / "helm"
RELEASE = "atelier"

Manifest = dict[str, Any]

#: Keys of the secret -> what an operator may put there, as in docker/env.example.
SECRETS = {
    "redis-password": example()["REDIS_PASSWORD"],
    "postgres-password": example()["POSTGRES_PASSWORD"],
    "s3-access-key": example()["S3_ACCESS_KEY"],
    "s3-secret-key": example()["S3_SECRET_KEY"],
    "qdrant-api-key": example()["QDRANT_API_KEY"],
    "api-keys": example()["API_KEYS"],
    "operator-keys": "[]",
    "webhook-secret": example()["WEBHOOK_SECRET"],
    "flower-auth": example()["FLOWER_AUTH"],
}
#: What a pod is told of itself; any address stands for its own.
FIELDS = {"metadata.name": "a-pod", "status.podIP": "0.0.0.0"}


def render(**values: object) -> list[Manifest]:
    """Render the chart with some values of one's own."""
    told = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
    command = [str(HELM), "template", RELEASE, str(CHART), *told]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.load_all(done.stdout, yaml.CSafeLoader) if each]


def of_kind(manifests: list[Manifest], *kinds: str) -> dict[str, Manifest]:
    """Find manifests by what they are; names without the release's."""
    return {
        each["metadata"]["name"].removeprefix(f"{RELEASE}-"): each
        for each in manifests
        if each["kind"] in kinds
    }


@dataclass(frozen=True)
class Pod:
    """The one container of a pod, and what stands around it."""

    spec: Manifest
    labels: Mapping[str, str]
    claims: tuple[str, ...]  #: volumes that each replica has of its own
    settings: Mapping[str, str]  #: of the config map

    @property
    def container(self) -> Manifest:
        (found,) = self.spec["containers"]
        return dict(found)

    @property
    def variables(self) -> dict[str, Manifest]:
        return {each["name"]: each for each in self.container.get("env", [])}

    @property
    def secrets(self) -> set[str]:
        """Keys of the secret that the process is given."""
        asked = (each.get("valueFrom", {}).get("secretKeyRef") for each in self.variables.values())
        return {each["key"] for each in asked if each}

    @property
    def environment(self) -> dict[str, str]:
        """What the process finds: `$(NAME)` put in as Kubernetes does."""
        found = dict(self.settings) if "envFrom" in self.container else {}
        for name, each in self.variables.items():
            found[name] = _value(each, found)
        return found

    @property
    def writable(self) -> set[str]:
        mounts = self.container["volumeMounts"]
        return {each["mountPath"] for each in mounts if not each.get("readOnly")}

    @property
    def ports(self) -> dict[str, int]:
        return {each["name"]: each["containerPort"] for each in self.container.get("ports", [])}

    def in_memory(self, path: str) -> bool:
        """Tell whether what is written there takes memory, not disk."""
        (name,) = (m["name"] for m in self.container["volumeMounts"] if m["mountPath"] == path)
        found = (v for v in self.spec["volumes"] if v["name"] == name)
        return any(v.get("emptyDir", {}).get("medium") == "Memory" for v in found)


def pods(manifests: list[Manifest]) -> dict[str, Pod]:
    """Find the pods of all that runs, by the name of what makes them."""
    settings = of_kind(manifests, "ConfigMap")["settings"]["data"]
    running = of_kind(manifests, "Deployment", "StatefulSet", "Job")
    return {
        name: Pod(
            spec=each["spec"]["template"]["spec"],
            labels=each["spec"]["template"]["metadata"]["labels"],
            claims=tuple(
                claim["metadata"]["name"] for claim in each["spec"].get("volumeClaimTemplates", [])
            ),
            settings=settings,
        )
        for name, each in running.items()
    }


def _value(variable: Manifest, before: Mapping[str, str]) -> str:
    source = variable.get("valueFrom", {})
    if "secretKeyRef" in source:
        return SECRETS[source["secretKeyRef"]["key"]]
    if "fieldRef" in source:
        return FIELDS[source["fieldRef"]["fieldPath"]]
    value = str(variable["value"])
    for name, known in before.items():
        value = value.replace(f"$({name})", known)
    return value
