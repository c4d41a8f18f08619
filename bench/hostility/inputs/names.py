"""List ids, names and keys in paths that are odd, too long, or other tenants'."""

from functools import partial
from itertools import product

from bench.hostility.input import END, Input, Known, Write, head

LONG = 7000  #: as much as a path may be, and a bit less

#: Every route whose path names something; `{}` is what is odd. Operators' are asked with their key.
NAMED = (
    "GET /v1/jobs/{}",
    "DELETE /v1/jobs/{}",
    "POST /v1/jobs/{}/cancel",
    "POST /v1/jobs/{}/retry",
    "GET /v1/jobs/{}/events",
    "GET /v1/templates/{}",
    "DELETE /v1/templates/{}",
    "GET /v1/files/{}",
    "DELETE /v1/files/{}",
    "GET /v1/loras/{}",
    "DELETE /v1/loras/{}",
    "GET /v1/embeddings/{}",
    "DELETE /v1/embeddings/{}",
    "GET /v1/controlnets/{}",
    "DELETE /v1/controlnets/{}",
    "GET /v1/applications/{}",
    "DELETE /v1/applications/{}",
    "POST /v1/webhooks/{}/replay",
    "GET /v1/predictions/{}",
    "GET /v1/predictions/{}/stream",
    "POST /v1/predictions/{}/cancel",
    "GET /v1/models/{}",
    "GET /v1/models/atelier/{}",
    "GET /v1/models/atelier/{}/versions",
    "GET /v1/models/atelier/shapes-m/versions/{}",
    "DELETE /v1/models/{}",
    "POST /v1/keys/{}/rotate",
    "DELETE /v1/keys/{}",
    "GET /v1/tenants/{}",
    "PATCH /v1/tenants/{}",
    "GET /assets/{}",
    "GET /files/{}",
    "HEAD /files/{}",
)
#: Those that take any name: of a tenant that nobody has heard of there are defaults.
ANY = "GET /v1/tenants/{}"
OPERATORS = (
    *("DELETE /v1/models/", "POST /v1/keys/", "DELETE /v1/keys/"),
    *("GET /v1/tenants/", "PATCH /v1/tenants/"),
)

ODD = {
    "another tenant's job": "",
    "a path upwards": "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "a pattern, a quote and a line": "*%27%20OR%201=1%0d%0aDEL%20jobs",
    "bytes that are no text": "%00%ff%fe%ed%a0%80",
    f"{LONG} letters": "a" * LONG,
}


def asked(route: str, name: str) -> Write:
    """Ask for something by a name; an empty one is that of another tenant's job."""

    def write(known: Known) -> list[bytes]:
        by = known.as_operator() if route.startswith(OPERATORS) else known
        method, _, path = route.partition(" ")
        return [*head(by, method, path.format(name or known.theirs), "Content-Length: 0"), END]

    return write


row = partial(Input, kind="names")

NAMES = tuple(
    row(name=f"{told}: {route}", pieces=asked(route, name), is_refused=bool(name) or route != ANY)
    for route, (told, name) in product(NAMED, ODD.items())
)
