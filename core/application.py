"""Application: a tenant's SLO and quality floor for jobs of one kind. Pure."""

from dataclasses import dataclass

DEFAULT = "default"  #: the application of a job that names none


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """Jobs of one tenant that are served alike: Proteus' query type (§3)."""

    name: str  #: unique among its tenant's
    tenant: str
    models: tuple[str, ...]  #: that may serve it, sorted
    #: From acceptance to images; None: three times what the best of its models takes.
    slo_s: float | None = None
    quality_floor: float = 0.0  #: mean relative quality that a level must give a class, in [0, 1]

    @property
    def key(self) -> str:
        return application_key(self.tenant, self.name)


def application_key(tenant: str, name: str | None) -> str:
    """Name an application among those of all tenants, as demand and plan do."""
    return DEFAULT if name in (None, DEFAULT) else f"{tenant}/{name}"


def own_name(tenant: str, key: str) -> str | None:
    """Name an application as its tenant does; None: it is another tenant's."""
    owner, _, name = key.rpartition("/")
    return name if owner in ("", tenant) else None


def promised_as(application: str, models: tuple[str, ...]) -> str:
    """Name those jobs of an application that are promised alike.

    One that only one model may make is promised by what that takes (`scheduler/routing/slo`).
    """
    return f"{application} {models[0]}" if len(models) == 1 else application
