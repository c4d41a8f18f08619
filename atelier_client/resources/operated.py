"""What is served: models, applications, fleet, plan, webhooks that nobody took."""

from collections.abc import Sequence
from urllib.parse import quote

from atelier_client.exchange.endpoints import Resource, RunnerT, endpoint
from atelier_client.exchange.flows import ask
from atelier_client.exchange.steps import Call, Flow
from atelier_client.resources.kept import given
from atelier_client.types.kept import Application, ApplicationDeleted, Deleted, Page
from atelier_client.types.service import (
    DeadWebhook,
    Fleet,
    History,
    Model,
    Models,
    Plan,
    Replayed,
    WebhookSecret,
)
from atelier_client.types.tenant import NotedAct, Usage

#: Seconds that the conversion of the largest checkpoint may take.
CONVERTED_S = 3600.0


class ServedModels(Resource[RunnerT]):
    """Models: `/v1/models`."""

    @endpoint
    def list(self) -> Flow[Models]:
        """Read which models are served, and the limits that hold for all."""
        return ask(read_of("/v1/models"), Models)

    @endpoint
    def get(self, name: str) -> Flow[Model]:
        """Read what one model makes."""
        return ask(read_of(one_of("/v1/models", name)), Model)

    @endpoint
    def add(
        self, path: str, *, name: str | None = None, base: str | None = None, dry_run: bool = False
    ) -> Flow[Model]:
        """Have a folder, or a checkpoint, of the service's own disk served (operators)."""
        body = given(path=path, name=name, base=base, dry_run=dry_run or None)
        return ask(Call(method="POST", path="/v1/models", json=body, timeout_s=CONVERTED_S), Model)

    @endpoint
    def delete(self, name: str) -> Flow[Deleted]:
        """Serve a model no more (operators)."""
        return ask(Call(method="DELETE", path=one_of("/v1/models", name)), Deleted)


class Applications(Resource[RunnerT]):
    """Kinds of jobs, with an SLO and a quality floor of their own: `/v1/applications`."""

    @endpoint
    def add(
        self,
        name: str,
        *,
        models: Sequence[str] | None = None,
        slo_s: float | None = None,
        quality_floor: float = 0.0,
    ) -> Flow[Application]:
        """Register an application; jobs name it."""
        wanted = {"name": name, "models": models, "slo_s": slo_s, "quality_floor": quality_floor}
        return ask(Call(method="POST", path="/v1/applications", json=wanted), Application)

    @endpoint
    def get(self, name: str) -> Flow[Application]:
        """Read one application."""
        return ask(read_of(one_of("/v1/applications", name)), Application)

    @endpoint
    def list(self) -> Flow[Page[Application]]:
        """Read the applications registered."""
        return ask(read_of("/v1/applications"), Page[Application])

    @endpoint
    def delete(self, name: str) -> Flow[ApplicationDeleted]:
        """Delete an application; jobs that were accepted are made all the same."""
        path = one_of("/v1/applications", name)
        return ask(Call(method="DELETE", path=path), ApplicationDeleted)


class Webhooks(Resource[RunnerT]):
    """Webhooks that no receiver took, and what they are signed by: `/v1/webhooks`."""

    @endpoint
    def dead(self, *, limit: int = 20, cursor: str | None = None) -> Flow[Page[DeadWebhook]]:
        """Read which webhooks were given up, latest first; a page may be short."""
        params = given(limit=limit, cursor=cursor)
        call = Call(method="GET", path="/v1/webhooks/dead", params=params, may_repeat=True)
        return ask(call, Page[DeadWebhook])

    @endpoint
    def replay(self, webhook_id: str) -> Flow[Replayed]:
        """Send one again, under its id."""
        path = f"{one_of('/v1/webhooks', webhook_id)}/replay"
        return ask(Call(method="POST", path=path), Replayed)

    @endpoint
    def secret(self) -> Flow[WebhookSecret]:
        """Read the secret for `verify_webhook`, where the service tells it."""
        return ask(read_of("/v1/webhooks/default/secret"), WebhookSecret)


class Service(Resource[RunnerT]):
    """What was used, and, for operators, workers, plan and the last hour."""

    @endpoint
    def fleet(self) -> Flow[Fleet]:
        """Read what workers there are, what each does, and what waits."""
        return ask(read_of("/v1/fleet"), Fleet)

    @endpoint
    def plan(self) -> Flow[Plan]:
        """Read the plan in force."""
        return ask(read_of("/v1/plan"), Plan)

    @endpoint
    def history(self) -> Flow[History]:
        """Read what came and was made in the last hour, twice a minute."""
        return ask(read_of("/v1/history"), History)

    @endpoint
    def audit(self, *, limit: int = 100) -> Flow[Page[NotedAct]]:
        """Read who did what last, newest first."""
        call = Call(method="GET", path="/v1/audit", params={"limit": limit}, may_repeat=True)
        return ask(call, Page[NotedAct])

    @endpoint
    def usage(
        self,
        *,
        start: str | None = None,
        end: str | None = None,
        by: str | None = None,
        tenant: str | None = None,
    ) -> Flow[Usage]:
        """Read what the tenant has used, by `day` or `month`; operators name others."""
        params = given(start=start, end=end, by=by, tenant=tenant)
        return ask(Call(method="GET", path="/v1/usage", params=params, may_repeat=True), Usage)


def read_of(path: str) -> Call:
    """Read what is there; reading twice changes nothing."""
    return Call(method="GET", path=path, may_repeat=True)


def one_of(path: str, name: str) -> str:
    """Write the path of one thing; its name cannot leave it."""
    return f"{path}/{quote(name, safe='')}"
