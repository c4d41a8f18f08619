"""What is served, to whom: models, applications, keys, fleet, plan, webhooks that nobody took."""

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
    Key,
    Model,
    Models,
    Plan,
    Replayed,
    WebhookSecret,
)

#: Seconds that the conversion of the largest checkpoint may take.
CONVERTED_S = 3600.0


class ServedModels(Resource[RunnerT]):
    """Models: `/v1/models`."""

    @endpoint
    def list(self) -> Flow[Models]:
        """Read which models are served, and the limits that hold for all."""
        return ask(_read("/v1/models"), Models)

    @endpoint
    def get(self, name: str) -> Flow[Model]:
        """Read what one model makes."""
        return ask(_read(_one("/v1/models", name)), Model)

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
        return ask(Call(method="DELETE", path=_one("/v1/models", name)), Deleted)


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
        return ask(_read(_one("/v1/applications", name)), Application)

    @endpoint
    def list(self) -> Flow[Page[Application]]:
        """Read the applications registered."""
        return ask(_read("/v1/applications"), Page[Application])

    @endpoint
    def delete(self, name: str) -> Flow[ApplicationDeleted]:
        """Delete an application; jobs that were accepted are made all the same."""
        path = _one("/v1/applications", name)
        return ask(Call(method="DELETE", path=path), ApplicationDeleted)


class Keys(Resource[RunnerT]):
    """API keys of tenants (operators): `/v1/keys`."""

    @endpoint
    def add(
        self,
        tenant: str,
        *,
        name: str = "",
        scopes: Sequence[str] | None = None,
        expires_in_s: float | None = None,
    ) -> Flow[Key]:
        """Make a key; only this answer has the key itself."""
        body: dict[str, object] = {"tenant": tenant, "name": name}
        body |= {"scopes": list(scopes)} if scopes else {}
        body |= given(expires_in_s=expires_in_s)
        return ask(Call(method="POST", path="/v1/keys", json=body), Key)

    @endpoint
    def list(self, *, tenant: str | None = None) -> Flow[Page[Key]]:
        """Read the keys made, newest first, of one tenant or all."""
        call = Call(method="GET", path="/v1/keys", params=given(tenant=tenant), may_repeat=True)
        return ask(call, Page[Key])

    @endpoint
    def rotate(self, key_id: str, *, overlap_s: float = 86_400.0) -> Flow[Key]:
        """Make a key in the place of one, which works on for a while."""
        path = f"{_one('/v1/keys', key_id)}/rotate"
        return ask(Call(method="POST", path=path, params={"overlap_s": overlap_s}), Key)

    @endpoint
    def revoke(self, key_id: str) -> Flow[Key]:
        """End a key."""
        return ask(Call(method="DELETE", path=_one("/v1/keys", key_id)), Key)


class Webhooks(Resource[RunnerT]):
    """Webhooks that no receiver took, and what they are signed by: `/v1/webhooks`."""

    @endpoint
    def dead(self, *, limit: int = 20) -> Flow[Page[DeadWebhook]]:
        """Read which webhooks were given up, latest first."""
        call = Call(
            method="GET", path="/v1/webhooks/dead", params={"limit": limit}, may_repeat=True
        )
        return ask(call, Page[DeadWebhook])

    @endpoint
    def replay(self, webhook_id: str) -> Flow[Replayed]:
        """Send one again, under its id."""
        path = f"{_one('/v1/webhooks', webhook_id)}/replay"
        return ask(Call(method="POST", path=path), Replayed)

    @endpoint
    def secret(self) -> Flow[WebhookSecret]:
        """Read the secret for `verify_webhook`, where the service tells it."""
        return ask(_read("/v1/webhooks/default/secret"), WebhookSecret)


class Service(Resource[RunnerT]):
    """Workers, plan and the last hour (operators): `/v1/fleet`, `/v1/plan`, `/v1/history`."""

    @endpoint
    def fleet(self) -> Flow[Fleet]:
        """Read what workers there are, what each does, and what waits."""
        return ask(_read("/v1/fleet"), Fleet)

    @endpoint
    def plan(self) -> Flow[Plan]:
        """Read the plan in force."""
        return ask(_read("/v1/plan"), Plan)

    @endpoint
    def history(self) -> Flow[History]:
        """Read what came and was made in the last hour, twice a minute."""
        return ask(_read("/v1/history"), History)


def _read(path: str) -> Call:
    return Call(method="GET", path=path, may_repeat=True)


def _one(path: str, name: str) -> str:
    return f"{path}/{quote(name, safe='')}"
