"""Check whether a URL or IP address is public and may be called. Pure: no look-ups.

Our own table, because `ipaddress.is_global` differs between Python releases (CVE-2024-4032).
Source: the IANA special-purpose address registries for IPv4 and IPv6.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

_V4_RESERVED = tuple(
    ip_network(n)
    for n in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
#: Only global unicast is public, and not all of that.
_V6_PUBLIC = ip_network("2000::/3")
_V6_RESERVED = tuple(
    ip_network(n) for n in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
_V6_NAT64 = ip_network("64:ff9b::/96")

_LOCAL_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa", ".lan")
_MAX_URL = 2048


def is_public(address: str) -> bool:
    """Tell whether an IP address belongs to the open internet."""
    try:
        parsed = ip_address(address.split("%", 1)[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_v4(parsed)
    inner = _unwrap(parsed)
    if inner is not None:
        return _is_public_v4(inner)
    return parsed in _V6_PUBLIC and not any(parsed in n for n in _V6_RESERVED)


def fault_of_url(url: str, *, allow_private: bool) -> str | None:
    """Say what is wrong with a client's URL, or None if it may be called.

    A name can still turn out to mean a private address: whoever calls it resolves it once,
    asks `is_public` about every address and connects to one of these, never to the name.
    """
    if len(url) > _MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        return f"must be printable ASCII without spaces, at most {_MAX_URL} characters"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "must be a URL"
    if parts.username is not None or parts.password is not None or "\\" in url:
        return "must have no user name, password or backslash"
    if not parts.hostname:
        return "must name a host"
    return _fault_of_target(parts, port, allow_private=allow_private)


def _fault_of_target(parts: SplitResult, port: int | None, *, allow_private: bool) -> str | None:
    if parts.scheme != "https" and not (allow_private and parts.scheme == "http"):
        return "must start with https://"
    if port is not None and port != 443 and port < 1024 and not allow_private:
        return "must use port 443 or one above 1023"
    return None if allow_private else _fault_of_host((parts.hostname or "").rstrip("."))


def _fault_of_host(host: str) -> str | None:
    if ":" in host or _ends_in_number(host):
        return None if is_public(host) else "must be a public address"
    if "." not in host or host.endswith(_LOCAL_SUFFIXES):
        return "must be a public host name"
    return None


def _ends_in_number(host: str) -> bool:
    """Whether a resolver would read the host as an IPv4 address, in whatever notation."""
    last = host.rsplit(".", 1)[-1]
    return last.isdigit() or last.startswith("0x")


def _is_public_v4(address: IPv4Address) -> bool:
    return not any(address in n for n in _V4_RESERVED)


def _unwrap(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _V6_NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None
