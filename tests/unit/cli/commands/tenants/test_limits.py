import json

import httpx
import msgspec
import pytest

from atelier_client import Client
from cli.commands.tenants import limits
from cli.main import main


@pytest.mark.parametrize(
    ("words", "said"), [([], "say what to change"), (["--default", "colour"], "--default colour")]
)
def test_what_says_nothing_to_change_is_refused(words, said, capfd):
    with pytest.raises(SystemExit) as end:
        main(["tenants", "set", "acme", *words])
    assert end.value.code == 2
    assert said in capfd.readouterr().err


def test_what_is_not_limited_is_shown_as_a_dash(capsys):
    row = {"name": "acme", "weight": 2.0, "retention_s": 600.0}
    row |= {"limits": {"jobs_per_s": 0.5, "kept_bytes": 10**10}}
    sent = []

    def answer(request):
        sent.append((request.method, request.url.path, json.loads(request.content)))
        return httpx.Response(200, content=msgspec.json.encode(row))

    with Client("http://x", transport=httpx.MockTransport(answer)) as client:
        acme = client.tenants.change("acme", jobs_per_s=0.5, burst=None)
    assert sent == [("PATCH", "/v1/tenants/acme", {"jobs_per_s": 0.5, "burst": None})]
    limits._show([acme])
    shown = capsys.readouterr().out
    assert shown.split()[-9:] == ["acme", "2", "600", "s", "0.5/s", "-", "-", "-", "10,000,000,000"]
