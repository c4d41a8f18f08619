"""Where the job store is: one server, or the sentinels that know which server leads."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from core.errors import ConfigurationError

SENTINEL_PORT: Final = 26379
#: Schemes of one server -> what the client library calls them.
SERVERS: Final = {
    "redis": "redis",
    "rediss": "rediss",
    "valkey": "redis",
    "valkeys": "rediss",
    "unix": "unix",
}
#: Schemes of sentinels -> whether servers and sentinels are spoken to over TLS.
SENTINELS: Final = {"sentinel": False, "sentinels": True}
#: What may stand behind the `?` of an address of sentinels.
OPTIONS: Final = {"service", "sentinel_username", "sentinel_password"}
EXAMPLE: Final = "sentinel://user:password@host:26379,host:26379/0?service=atelier"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Who says that it asks; nobody where both are empty."""

    username: str = ""
    password: str = field(default="", repr=False)

    @property
    def options(self) -> dict[str, str]:
        """Spell it as the client library's options."""
        given = {"username": self.username, "password": self.password}
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class OneServer:
    """A server, and no other in its place."""

    url: str = field(repr=False)  #: as the client library reads it


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinels:
    """Servers of which one leads. Sentinels know which, and choose another when it is gone."""

    sentinels: tuple[tuple[str, int], ...]
    service: str  #: what sentinels call the servers
    db: int
    has_tls: bool
    credentials: Credentials  #: of the servers
    sentinel_credentials: Credentials  #: of the sentinels


Address = OneServer | Sentinels


def read_address(url: str) -> Address:
    """Read `ATELIER_REDIS_URL`.

    `redis://`, `rediss://` (TLS), `valkey://`, `valkeys://`, `unix://`: a server. `sentinel://`,
    `sentinels://` (TLS): any number of sentinels, separated by commas, and `?service=`.

    Raises:
        ConfigurationError: it is none of these; what is wrong is told without its password.
    """
    scheme, _, rest = url.partition("://")
    if scheme in SERVERS:
        return OneServer(url=f"{SERVERS[scheme]}://{rest}")
    if scheme not in SENTINELS:
        known = ", ".join(f"{name}://" for name in (*SERVERS, *SENTINELS))
        raise ConfigurationError(f"ATELIER_REDIS_URL: begins with none of {known}")
    try:
        return _read_watched(url, has_tls=SENTINELS[scheme])
    except ValueError as error:
        raise ConfigurationError(f"ATELIER_REDIS_URL: {error}; as {EXAMPLE}") from None


def _read_watched(url: str, *, has_tls: bool) -> Sentinels:
    parts = urlsplit(url)
    *who, hosts = parts.netloc.rsplit("@", 1)
    options = dict(parse_qsl(parts.query))
    if unknown := options.keys() - OPTIONS:
        raise ValueError(f"no such option: {', '.join(sorted(unknown))}")
    if not options.get("service"):
        raise ValueError("no ?service=, which sentinels call the servers by")
    username, _, password = "".join(who).partition(":")
    return Sentinels(
        sentinels=tuple(_read_host(each) for each in hosts.split(",")),
        service=options["service"],
        db=_read_number(parts.path.strip("/") or "0", "number of the database"),
        has_tls=has_tls,
        credentials=Credentials(username=unquote(username), password=unquote(password)),
        sentinel_credentials=Credentials(
            username=options.get("sentinel_username", ""),
            password=options.get("sentinel_password", ""),
        ),
    )


def _read_host(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("a sentinel without a host")
    return parts.hostname, parts.port or SENTINEL_PORT


def _read_number(text: str, what: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"no {what}: {text[:20]!r}")
    return int(text)


def broker_url(address: Address) -> str:
    """Spell an address as Celery reads it: each sentinel with the account of the servers."""
    if isinstance(address, OneServer):
        return address.url
    given, who = address.credentials, ""
    if given.password:
        who = f"{quote(given.username, safe='')}:{quote(given.password, safe='')}@"
    return ";".join(
        f"sentinel://{who}{f'[{host}]' if ':' in host else host}:{port}/{address.db}"
        for host, port in address.sentinels
    )
