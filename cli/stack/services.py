"""Programs of a one-machine service: commands, environment and ports of each."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from catalog.controlnets import read_controlnets
from cli.stack.datadir import Secrets
from cli.stack.devices import Devices
from cli.stack.ports import HOST
from cli.stack.probes import (
    answers_at_all,
    answers_http,
    answers_ping,
    leads,
    reports,
    takes_jobs,
)
from cli.stack.process import ROOT, ServiceSpec
from core.settings import Settings
from storage.redis.server import find_server_binary, server_command

#: Seconds a worker has to end, beyond those in which it may finish jobs, before it is killed.
WORKER_STOP_S = 10.0

#: Seconds a worker has until it reports. It loads models after that, however long they take.
WORKER_START_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Where the programs listen, all on loopback."""

    api: int
    scheduler: int
    store: int
    flower: int
    #: Of each worker, by its name: one for all, as an operator may set it, would end all but one.
    metrics: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One service on one machine."""

    data_dir: Path  #: absolute
    ports: Ports
    secrets: Secrets
    workers: int
    settings: Settings  #: what the operator's environment says

    @property
    def api_url(self) -> str:
        return f"http://{HOST}:{self.ports.api}"

    @property
    def flower_url(self) -> str:
        return f"http://{HOST}:{self.ports.flower}"

    @property
    def store_url(self) -> str:
        return f"redis://{HOST}:{self.ports.store}/0"

    @property
    def archive_url(self) -> str:
        """Where jobs go that ended a while ago: as the operator says, else a file of ours."""
        given = self.settings.archive_url.get_secret_value()
        return given or f"sqlite:///{self.data_dir / 'archive.db'}"

    @property
    def scheduler_url(self) -> str:
        return f"http://{HOST}:{self.ports.scheduler}"

    @property
    def headers(self) -> dict[str, str]:
        """Authorise our own look at the fleet."""
        keys = self._operator_keys
        return {"Authorization": f"Bearer {keys[-1]}"} if keys else {}

    @property
    def _operator_keys(self) -> tuple[str, ...]:
        """Ours beside the operator's own; none where no key is asked for."""
        given = self.settings
        if not given.api_keys and not given.operator_keys:
            return ()
        return (*given.operator_keys, self.secrets.operator_key)

    @property
    def env(self) -> dict[str, str]:
        """What every program needs to know."""
        given = self.settings
        return {
            "ATELIER_DATA_DIR": str(self.data_dir),
            "ATELIER_MODELS_DIR": str(models_dir(given)),
            "ATELIER_CONTROLNETS_DIR": str(controlnets_dir(given)),
            "ATELIER_IP_ADAPTERS_DIR": str(given.ip_adapters_dir.resolve()),
            **self._classifier_dir,
            "ATELIER_REDIS_URL": self.store_url,
            "ATELIER_ARCHIVE_URL": self.archive_url,
            "ATELIER_OPERATOR_KEYS": json.dumps(self._operator_keys),
            "ATELIER_API_PORT": str(self.ports.api),
            "ATELIER_PUBLIC_URL": self.public_url,
            "ATELIER_SCHEDULER_URL": self.scheduler_url,
            "ATELIER_SCHEDULER_HOST": HOST,
            "ATELIER_SCHEDULER_PORT": str(self.ports.scheduler),
            "ATELIER_URL_SECRET": given.url_secret.get_secret_value() or self.secrets.url_secret,
            "ATELIER_WEBHOOK_SECRET": given.webhook_secret.get_secret_value()
            or self.secrets.webhook_secret,
            "PYTHONUNBUFFERED": "1",
            "HF_HUB_OFFLINE": "1",
        }

    @property
    def _classifier_dir(self) -> dict[str, str]:
        """Name the classifier of the operator, from where the command was typed."""
        given = self.settings.classifier_dir
        return {} if given is None else {"ATELIER_CLASSIFIER_DIR": str(given.resolve())}

    @property
    def public_url(self) -> str:
        """What clients call the api: the operator's word, else where it listens."""
        is_given = "public_url" in self.settings.model_fields_set
        return self.settings.public_url if is_given else self.api_url

    @property
    def flower_auth(self) -> str:
        """`user:password` of Flower."""
        return self.settings.flower_auth.get_secret_value() or self.secrets.flower_auth

    @property
    def _devices(self) -> Devices:
        return Devices(
            settings=self.settings,
            workers=self.workers,
            has_controlnets=bool(read_controlnets(controlnets_dir(self.settings))),
        )

    def stages(self) -> list[Sequence[ServiceSpec]]:
        """List the programs in the order of their start; they stop the other way round."""
        others = [self._cpu_worker(), *self._control_workers()]
        workers = [self._worker(number) for number in range(1, self.workers + 1)]
        return [
            [self._store()],
            [self._scheduler(), self._api([*others, *workers])],
            [self._flower(), self._upkeep(), *others],
            workers,
        ]

    def _store(self) -> ServiceSpec:
        folder = self.data_dir / "store"
        folder.mkdir(exist_ok=True)
        command = server_command(find_server_binary(), folder, self.ports.store)
        return ServiceSpec(
            name="store",
            command=command,
            is_ready=answers_ping(self.ports.store),
            is_healthy=answers_at_all(self.ports.store),
        )

    def _scheduler(self) -> ServiceSpec:
        answers = answers_http(f"{self.scheduler_url}/healthz")
        command, env = _python("run.scheduler"), {**self.env, "OMP_NUM_THREADS": "1"}
        return ServiceSpec(
            name="scheduler", command=command, env=env, is_ready=answers, is_healthy=answers
        )

    def _api(self, workers: Sequence[ServiceSpec]) -> ServiceSpec:
        """Serve clients, and show whoever asks for metrics what scheduler and workers count."""
        ports = [self.ports.scheduler, *(self.ports.metrics[worker.name] for worker in workers)]
        metrics_of = [f"http://{HOST}:{port}/metrics" for port in ports]
        answers = answers_http(f"{self.api_url}/healthz")
        return ServiceSpec(
            name="api",
            command=_python("run.api"),
            env={**self.env, "ATELIER_METRICS_OF": json.dumps(metrics_of)},
            is_ready=answers,
            is_healthy=answers,
            stop_s=15.0,
        )

    def _upkeep(self) -> ServiceSpec:
        does = leads(self.ports.store, "upkeep")
        command = _python("run.upkeep")
        return ServiceSpec(
            name="upkeep", command=command, env=self.env, is_ready=does, is_healthy=does
        )

    def _cpu_worker(self) -> ServiceSpec:
        command, env = _python("run.worker", "--cpu"), self._worker_env("cpu")
        return ServiceSpec(name="cpu", command=command, env=env, stop_s=self._worker_stop_s)

    def _control_workers(self) -> list[ServiceSpec]:
        """Compute ControlNets beside the workers with models, if there are any."""
        if not self._devices.has_controlnets:
            return []
        command = _python("run.worker", "--control")
        env = self._worker_env("control") | self._devices.of_controlnets()
        return [ServiceSpec(name="control", command=command, env=env, stop_s=self._worker_stop_s)]

    def _worker(self, number: int) -> ServiceSpec:
        name = f"worker-{number}"
        return ServiceSpec(
            name=name,
            command=_python("run.worker"),
            env=self._worker_env(name) | self._devices.of_worker(number),
            is_ready=takes_jobs(self.api_url, name, self.headers),
            is_healthy=reports(self.api_url, self.ports.store, name, self.headers),
            start_s=WORKER_START_S,
            stop_s=self._worker_stop_s,
        )

    @property
    def _worker_stop_s(self) -> float:
        return self.settings.shutdown_s + WORKER_STOP_S

    def _worker_env(self, name: str) -> dict[str, str]:
        return {
            **self.env,
            "ATELIER_WORKER_NAME": name,
            "ATELIER_METRICS_HOST": HOST,
            "ATELIER_METRICS_PORT": str(self.ports.metrics[name]),
            "OMP_NUM_THREADS": "1",
        }

    def _flower(self) -> ServiceSpec:
        answers = answers_http(f"{self.flower_url}/healthcheck")
        options = {
            "address": HOST,
            "port": str(self.ports.flower),
            "persistent": "True",
            "state_save_interval": "10000",
            "db": str(self.data_dir / "flower.db"),
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        return ServiceSpec(
            name="flower",
            command=_python("tasks.flower", *words),
            env={**self.env, "FLOWER_BASIC_AUTH": self.flower_auth},  # not in `ps`
            is_ready=answers,
            is_healthy=answers,
        )


def worker_names(workers: int) -> list[str]:
    """Name every worker that may run: those with models, and the others."""
    return ["cpu", "control", *(f"worker-{number}" for number in range(1, workers + 1))]


def _python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def controlnets_dir(settings: Settings) -> Path:
    """Find the ControlNets: where the operator says, else those that ship with the project."""
    is_given = "controlnets_dir" in settings.model_fields_set
    return (settings.controlnets_dir if is_given else ROOT / settings.controlnets_dir).resolve()


def models_dir(settings: Settings) -> Path:
    """Find the models: where the operator says, else those that ship with the project."""
    is_given = "models_dir" in settings.model_fields_set
    return (settings.models_dir if is_given else ROOT / settings.models_dir).resolve()
