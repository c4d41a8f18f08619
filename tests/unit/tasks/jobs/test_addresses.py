"""Which URLs and addresses webhooks may go to."""

from ipaddress import IPv4Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.jobs.addresses import fault_of_url, is_public

PRIVATE = [
    "127.0.0.1",
    "10.1.2.3",
    "172.31.255.255",
    "192.168.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "64:ff9b::a00:1",
    "fe80::1%eth0",
    "fc00::1",
    "ff02::1",
    "2002:7f00:1::",
    "2001:db8::1",
    "2001::1",
    "100::1",
    "localhost",
    "2130706433",
]
PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_inside_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_outside_is_public(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses(v=4, network=ip_network("10.0.0.0/8")))
def test_a_private_address_stays_private_in_any_wrapping(address: IPv4Address) -> None:
    assert not is_public(f"::ffff:{address}")
    assert not is_public(f"64:ff9b::{int(address) >> 16:x}:{int(address) & 0xFFFF:x}")


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/hook",
        "https://example.com:8443/a?b=c",
        "https://93.184.216.34/x",
        "https://[2606:4700::1111]/x",
    ],
)
def test_a_public_https_url_may_be_called(url: str) -> None:
    assert fault_of_url(url, allow_private=False) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "https:///nohost",
        "https://user:secret@example.com/",
        "https://example.com:25/",
        "https://example.com:99999/",
        "https://localhost/",
        "https://redis/",
        "https://printer.local/",
        "https://metadata.google.internal./",
        "https://127.0.0.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f.0.0.0x1/",
        "https://0177.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://exämple.com/",
        "https://example.com/a b",
        "https://example.com\\@127.0.0.1/",
        "https://" + "a" * 3000 + ".com/",
        "not a url",
        "",
    ],
)
def test_any_other_url_is_refused_with_a_reason(url: str) -> None:
    assert fault_of_url(url, allow_private=False)


def test_a_closed_network_may_allow_private_targets() -> None:
    assert fault_of_url("http://127.0.0.1:9000/hook", allow_private=True) is None
    assert fault_of_url("http://receiver/hook", allow_private=True) is None
    assert fault_of_url("http://user:secret@receiver/", allow_private=True)
