"""List queries and headers of reading routes that are forged, odd or too much."""

from functools import partial
from itertools import product

from bench.hostility.input import END, Input, Known, Write, get, head

#: Every list, and what its query takes.
LISTS = {
    "/v1/jobs": ("limit", "cursor", "status"),
    "/v1/templates": ("limit", "cursor"),
    "/v1/files": ("limit", "cursor"),
    "/v1/loras": ("limit", "cursor"),
    "/v1/embeddings": ("limit", "cursor"),
    "/v1/controlnets": ("limit", "cursor"),
    "/v1/webhooks/dead": ("limit", "cursor"),
    "/v1/predictions": ("cursor",),
    "/v1/usage": ("start", "end", "by", "tenant"),
    "/v1/audit": ("limit",),
}
ODD = {
    "limit": ("0", "-1", "1e400", "NaN", "9" * 5000, "%00", "1" * 400),
    "cursor": ("1.%ff", "-1.a", "9" * 80, "%2b1.a", "1.a%0d%0aDEL", "1." + "a" * 65),
    "start": ("0000-00-00", "9999-12-31", "99999-01-01", "1e999", "0001-01-01", "%00"),
    "end": ("-1", "0000-01-01", "9999-12-31T00:00:00", "9" * 5000, "%d9%a2"),
    "by": ("year", "%00", "a" * 5000),
    "tenant": ("..", "acme", "a" * 65, "%ff"),
    "status": ("*", "%ff", "QUEUED", "a" * 5000),
}
#: Routes without a query of their own, which answer whatever else is asked.
PLAIN = (
    "/v1/applications",
    "/v1/models",
    "/v1/ip-adapters",
    "/v1/webhooks/default/secret",
    "/v1/webhooks/secret",
    "/v1/fleet",
    "/v1/plan",
    "/v1/history",
    "/v1/keys",
    "/v1/tenants",
    "/v1/audit",
    "/healthz",
    "/readyz",
    "/metrics",
    "/",
    "/docs",
    "/docs/swagger-ui-bundle.js",
    "/docs/swagger-ui.css",
    "/openapi.json",
)
OPERATORS = ("/v1/fleet", "/v1/plan", "/v1/history", "/v1/keys", "/v1/tenants", "/v1/audit")
MANY = "&".join(["limit=9&cursor=1.a&a[]=1"] * 250)
#: What may come before `/`: a host that no URL can have breaks whoever makes a URL of it.
HOSTS = ("[", "a]b", "a/b?c=d#e", "a@b", "\xe9", "a:99999999", "", "%00", "a" * 9000)


def read(target: str, *headers: str) -> Write:
    """Ask with the key that the route takes."""

    def write(known: Known) -> list[bytes]:
        by = known.as_operator() if target.startswith(OPERATORS) else known
        return get(by, target.format(known=known), *headers)

    return write


def hosted(target: str, host: str) -> Write:
    """Ask a host of an odd name; the one that is right is not sent."""

    def write(known: Known) -> list[bytes]:
        begun = [each.replace(b"Host: 127.0.0.1", b"Host: " + host.encode("latin-1"))
                 for each in head(known, "GET", target)]  # fmt: skip
        return [*begun, END]

    return write


def headed(target: str) -> Write:
    """Ask for a head, with a body that nobody reads."""
    return lambda known: [*head(known, "HEAD", target, "Content-Length: 9"), END, b"{" * 9]


row = partial(Input, kind="queries")

LISTED = tuple(
    row(name=f"{name}={value[:20]} of {path}", pieces=read(f"{path}?{name}={value}"),
        is_refused=True)
    for path, names in LISTS.items() for name in names for value in ODD[name]
)  # fmt: skip
ASIDE = tuple(row(name=f"750 parameters of {path}", pieces=read(f"{path}?{MANY}"))
              for path in PLAIN)  # fmt: skip
NOT_THERE = tuple(
    row(name=f"host {host[:12]!r} for {path}", pieces=hosted(path, host))
    for host, path in product(HOSTS, ("/v1/nothing", "/v1/jobs"))
)

SIGNED = "expires=9999999999&signature="
FILES = tuple(
    row(name=f"a file, {name}", pieces=read(target), is_refused=True)
    for name, target in {
        "its signature no ASCII": f"/files/a.png?{SIGNED}%C3%A9%ff",
        "its signature of 201": f"/files/a.png?{SIGNED}{'0' * 201}",
        "its end of 5,000 digits": f"/files/a.png?expires={'9' * 5000}&signature=0",
        "its end in Arabic digits": "/files/a.png?expires=%D9%A1%D9%A2&signature=0",
        "outside, encoded twice": f"/files/..%252f..%252fetc%252fpasswd?{SIGNED}0",
        "outside, by slashes": f"/files//etc/passwd?{SIGNED}0",
        "of the store of keys": f"/files/~keys/../..?{SIGNED}0",
    }.items()
)

RANGES = {
    "of 5,000 digits": "bytes=" + "9" * 5000 + "-",
    "backwards": "bytes=9-1",
    "of no bytes": "bytes=",
    "in Arabic digits": "bytes=\xb2-\xb3",
    "of another unit": "lines=0-",
    "overlapping": "bytes=" + ",".join(["0-9"] * 15),
    "17": "bytes=" + ",".join(["0-0"] * 17),
}
IN_PARTS = tuple(
    row(name=f"a range {name}", pieces=read("{known.image}", f"Range: {value}"))
    for name, value in RANGES.items()
)

RESUMED = {
    "of 20 digits": "9" * 20 + "-" + "9" * 20,
    "of 5,000 digits": "9" * 5000,
    "that is a command": "0\tDEL",
    "negative": "-1",
    "no ASCII": "\xb2-\xe9",
}
EVENTS = tuple(
    row(
        name=f"events after an id {name}", hold_s=0.3, is_cut=True,
        pieces=read("/v1/jobs/{known.job}/events", f"Last-Event-ID: {value}"),
    )
    for name, value in RESUMED.items()
)  # fmt: skip

QUERIES = (
    *LISTED, *ASIDE, *NOT_THERE, *FILES, *IN_PARTS, *EVENTS,
    row(name="HEAD of the description, with a body", pieces=headed("/openapi.json")),
    row(
        name="previews that are neither", is_refused=True,
        pieces=read("/v1/jobs/{known.job}/events?previews=%00"),
    ),
    row(
        name="100 streams with previews", hold_s=1.0, count=100, is_cut=True,
        pieces=read("/v1/jobs/{known.job}/events?previews=true"),
    ),
    row(
        name="a job of another tenant, deleted in its name", is_refused=True, says="operate",
        pieces=lambda known: [
            *head(known, "DELETE", f"/v1/jobs/{known.theirs}?tenant=bystander"), END
        ],
    ),
    row(
        name="keys of a tenant of 65 letters", is_refused=True,
        pieces=read("/v1/keys?tenant=" + "a" * 65),
    ),
    *(
        row(name=f"a wait of {value[:9]}", pieces=read(f"/v1/jobs/{{known.job}}?wait={value}"),
            is_refused=True)
        for value in ("-1", "61", "Infinity", "9" * 5000, "%00")
    ),
)  # fmt: skip
