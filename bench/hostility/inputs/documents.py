"""List JSON documents that are none, or are odd, for every route that reads one."""

import json
from functools import partial
from itertools import product

from api.intake.schemas import PROMPTS
from bench.hostility.input import Input, Write, patch, post

MIB = 2**20

#: Routes that read JSON with a key of a tenant, and those that read it from operators.
TARGETS = (
    "/v1/jobs",
    "/v1/applications",
    "/v1/images/generations",
    "/v1/predictions",
    "/v1/models/atelier/shapes-m/predictions",
)
CHANGED = "/v1/tenants/acme"
OPERATORS = ("/v1/keys", "/v1/models", CHANGED)
#: Names of texts of those bodies: whatever is wrong with a text is so with each of them.
TEXTS = (b"prompt", b"name", b"version", b"tenant", b"path")


def each_text(value: bytes) -> bytes:
    """Write an object whose texts are all the same."""
    return b"{" + b",".join(b'"%b":%b' % (name, value) for name in TEXTS) + b"}"


def members(count: int, letters: int) -> bytes:
    """Write an object of members that nobody knows, with long names."""
    named = (b'"%b":1' % str(at).encode().rjust(letters, b"k") for at in range(count))
    return b"{" + b",".join(named) + b"}"


ODD = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"prompt"',
    "two objects": b"{}{}",
    "an object cut short": b'{"prompt":"a',
    "a byte order mark": b"\xef\xbb\xbf" + each_text(b'"a"'),
    "UTF-16": '{"prompt":"a"}'.encode("utf-16"),
    "numbers for texts": each_text(b"1"),
    "NaN": each_text(b"NaN"),
    "1e999": each_text(b"1e999"),
    "-Infinity": each_text(b"-Infinity"),
    "5,000 digits": each_text(b"9" * 5000),
    "half a character": each_text(b'"\\ud800"'),
    "half a character in a name": b'{"\\udfff":1}',
    "a bare control character": each_text(b'"a\x00b"'),
    "a name 5,000 times": b'{"prompt":"a"' + b',"prompt":1' * 5000 + b"}",
    "10,000 lists deep": b'{"input":' + b"[" * 10_000,
    "10,000 objects deep": b'{"input":' * 10_000,
    "a name of 1 MB": b'{"' + b"k" * MIB + b'":1}',
    "900 names of 100 letters": members(900, 100),
    "a prototype": b'{"__proto__":{"prompt":"a"},"constructor":{"prototype":1}}',
}


#: Weighted prompts as nested, and as much in pieces, as a prompt is long.
NESTED = {
    "1,000 brackets around 1,000 marks": "(" * 1000 + ":" * 1000,
    "1,000 brackets that cross": "([" * 500 + ")" * 500 + "]" * 500,
    "500 weights": "(a)b" * 500,
    "2,000 spaces": "a" + " " * 1998 + "b",
}


def weighted(prompt: str) -> bytes:
    """Write a job whose prompts are all the same, and weighted."""
    return json.dumps(dict.fromkeys(PROMPTS, prompt) | {"prompt_syntax": "weighted"}).encode()


def sent(target: str, body: bytes) -> Write:
    """Send a document, to operators' routes with their key."""
    if target == CHANGED:
        return lambda known: patch(known.as_operator(), target, body)
    if target in OPERATORS:
        return lambda known: post(known.as_operator(), target, body)
    return lambda known: post(known, target, body)


row = partial(Input, kind="JSON")

DOCUMENTS = tuple(
    row(name=f"{name} to {target}", pieces=sent(target, body), is_refused=True)
    for target, (name, body) in product((*TARGETS, *OPERATORS), ODD.items())
) + tuple(
    row(name=f"a prompt of {name}", pieces=sent("/v1/jobs", weighted(prompt)))
    for name, prompt in NESTED.items()
)
