"""List what an operator may do by mistake, or with models of strangers; and keys that are none."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from bench.hostility.input import END, Input, Known, Write, get, patch, post
from bench.parts.hostile_models import FILES, FOLDERS

MIB = 2**20
KEYS, MODELS = "/v1/keys", "/v1/models"

PATHS = (
    "/etc/passwd",
    "/dev/zero",
    "/dev/stdin",
    "/proc/self/environ",
    "/proc/self/mem",
    "/proc/self/fd",
    "/",
    "..",
    "~",
    "~nobody-of-this-name/x",
    "a" * 5000,
    "a/" * 2000,
    "a\x00b",
    "//server/share",
    "https://example.com/model.safetensors",
)
NAMES = ("../../etc", "a/b", ".hidden", "a" * 65, "\x1b[2J", "", "ünï", "a\n")


def model(**said: object) -> Write:
    """Have a model served."""
    body = json.dumps(said).encode()
    return lambda known: post(known.as_operator(), MODELS, body)


def model_of(spoilt: str, **said: object) -> Write:
    """Have one of the hostile models served."""

    def write(known: Known) -> list[bytes]:
        body = json.dumps({"path": str(known.folder / spoilt), **said}).encode()
        return post(known.as_operator(), MODELS, body)

    return write


def key(**said: object) -> Write:
    """Have a key made."""
    body = json.dumps({"tenant": "acme", **said}).encode()
    return lambda known: post(known.as_operator(), KEYS, body)


def limits(**said: object) -> Write:
    """Have a tenant limited."""
    body = json.dumps(said).encode()
    return lambda known: patch(known.as_operator(), "/v1/tenants/acme", body)


def bearing(value: str) -> Write:
    """Ask with something else in the place of a key."""
    begun = f"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {value}\r\n"
    return lambda _: [begun.encode("latin-1"), END]


def _rotated(overlap_s: str, known: Known) -> list[bytes]:
    return post(known, f"/v1/webhooks/secret/rotate?overlap_s={overlap_s}", b"")


row = partial(Input, kind="operators", is_refused=True)

ODD_KEYS: Mapping[str, Mapping[str, Any]] = {
    "a tenant upwards": {"tenant": "../../etc"},
    "a tenant of 65 letters": {"tenant": "a" * 65},
    "a tenant and a line": {"tenant": "acme\n"},
    "a tenant in Arabic digits": {"tenant": "٦٤"},
    "a tenant of the store": {"tenant": "~recorder"},
    "a thousand scopes": {"scopes": ["read"] * 1000},
    "no scope": {"scopes": []},
    "a scope that is none": {"scopes": ["*"]},
    "a name of 1 MB": {"name": "a" * MIB},
    "a life of 10**300": {"expires_in_s": 10**300},
    "a life of -1": {"expires_in_s": -1},
    "a life of a text": {"expires_in_s": "forever"},
}
ODD_LIMITS: Mapping[str, Mapping[str, Any]] = {
    "a weight of 0": {"weight": 0},
    "a weight of 10**300": {"weight": 10**300},
    "a rate of -1": {"jobs_per_s": -1},
    "a rate of 10**300": {"jobs_per_s": 10**300},
    "a burst of 2**70": {"burst": 2**70},
    "jobs of -1": {"open_jobs": -1},
    "images of 1.5": {"images_a_day": 1.5},
    "bytes of 2**70": {"kept_bytes": 2**70},
    "another name": {"name": "other"},
}
#: Fewer than what slows an address down.
BEARERS = ("Bearer", "Bearer ", "Bearer \xff\xfe", "Basic YTpi", "Bearer " + "a" * 20_000, "a, b")

OPERATORS = (
    *(row(name=f"a model at {path[:24]!r}", pieces=model(path=path)) for path in PATHS),
    *(row(name=f"a model called {name[:24]!r}", pieces=model_of("looped", name=name))
      for name in NAMES if name),
    *(Input(kind="operators", name=f"a folder {name}", pieces=model_of(name)) for name in FOLDERS),
    *(row(name=f"a checkpoint {name}", pieces=model_of(name)) for name in FILES),
    *(row(name=f"a base {base}", pieces=model_of("shapes.safetensors", base=base))
      for base in ("/dev/zero", "/etc", "a" * 5000)),
    *(row(name=f"a key of {told}", pieces=key(**said)) for told, said in ODD_KEYS.items()),
    *(row(name=f"a tenant with {told}", pieces=limits(**said))
      for told, said in ODD_LIMITS.items()),
    *(row(name=f"an authorization {value[:16]!r}", pieces=bearing(value)) for value in BEARERS),
    row(name="a tenant's key for operators", pieces=lambda known: get(known, KEYS), says="operate"),
    row(
        name="an overlap of infinity", is_refused=True,
        pieces=lambda known: post(known.as_operator(), f"{KEYS}/a/rotate?overlap_s=Infinity", b""),
    ),
    *(row(name=f"an overlap of {said[:9]} of a webhook secret",
          pieces=partial(_rotated, said)) for said in ("Infinity", "-1", "9" * 5000, "%00")),
    row(
        name="URLs revoked of a tenant upwards", is_refused=True,
        pieces=lambda known: post(known, "/v1/urls/revoke?tenant=../../etc", b""),
    ),
    row(
        name="100 keys at once", count=100, is_refused=False, pieces=key(expires_in_s=1),
    ),
)  # fmt: skip
