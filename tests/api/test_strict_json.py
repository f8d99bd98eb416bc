"""Strict input: refused with the place named, never a 500, and stored as it was understood."""

from __future__ import annotations

import json

import pytest

from runs.domain import strict_json
from runs.domain.errors import Malformed
from runs.domain.facts import canonical
from runs.domain.vocabulary import RunStatus
from runs.models import RunEvent
from tests import factories
from tests.api.calls import Caller, LeasedCaller, problem

DEEP = 31

REFUSED = [
    (b'{"a": "\xff"}', None),
    (b'{"a": 1, "a": 2}', "/a"),
    (b'{"a": {"b/c": 1, "b/c": 1}}', "/a/b~1c"),
    (b'{"a": NaN}', "/a"),
    (b'{"a": [1, Infinity]}', "/a/1"),
    (b'{"a": -Infinity}', "/a"),
    (b'{"a": 1e999}', "/a"),
    (b'{"a": 9223372036854775808}', "/a"),
    (b'{"a": -9223372036854775809}', "/a"),
    (b'{"a": 9223372036854775808.0}', "/a"),
    (b'{"a": ' + b"9" * 5000 + b"}", None),
    (b'{"a": "x\\u0000"}', "/a"),
    (b'{"x\\u0000": 1}', "/x\\x00"),
    (b'{"a": "\\ud800"}', "/a"),
    (b'{"a": "\\udc00\\ud800"}', "/a"),
    (b'{"\\ud800": 1}', "/\\ud800"),
    (b'{"a": "x\x00"}', None),
    (b'{"a": "tab\there"}', None),
    (b'{"a": 1,}', None),
    (b'{"a": 01}', None),
    (b"{'a': 1}", None),
    (b'{"a": 1} x', None),
    (b'{"a": +1}', None),
    (b"\xef\xbb\xbf{}", None),
    (json.dumps({"a": 1}).encode("utf-16"), None),
    (b'{"a": ' + b"[" * 33 + b"]" * 33 + b"}", "/a" + "/0" * DEEP),
    (b"[" * 100_000, None),
    (b'{"a":' * 100_000, None),
    (b"", None),
]


@pytest.mark.parametrize(("body", "pointer"), REFUSED)
def test_what_is_not_strict_is_refused_with_its_place(body, pointer):
    with pytest.raises(Malformed) as refused:
        strict_json.parse(body)
    assert refused.value.extra.get("pointer") == pointer
    json.dumps(refused.value.extra, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": "\\ud83d\\ude00 \xc3\xbc"}', {"a": "\U0001f600 ü"}),
        (b'{"a": -0.0, "b": -0, "c": 1e2}', {"a": 0.0, "b": 0, "c": 100.0}),
        (b"[1e16, 1.5e18, 0.1]", [10**16, 15 * 10**17, 0.1]),
        (b"[9223372036854775807, -9223372036854775808]", [2**63 - 1, -(2**63)]),
        (b"[" * 32 + b"]" * 32, eval("[" * 32 + "]" * 32)),
        (b"null", None),
    ],
)
def test_what_is_strict_is_understood(body, value):
    found = strict_json.parse(body)
    assert found == value
    assert canonical(found) == canonical(value)


def test_minus_zero_loses_its_sign():
    assert str(strict_json.parse(b"-0.0")) == "0.0"


# --- over HTTP ------------------------------------------------------------------------------------


@pytest.fixture
def caller(db):
    return LeasedCaller(factories.run_in(RunStatus.EXECUTING))


def send(caller: LeasedCaller, body: bytes, **headers: str):
    return caller.post(
        f"runs/{caller.run_id}/events", body, lease_token=caller.lease_token, idempotency_key="k", **headers
    )


@pytest.mark.parametrize(
    ("inner", "pointer"), [(b'"\\ud800"', "/payload/a"), (b"NaN", "/payload/a"), (b"1e999", "/payload/a")]
)
def test_the_place_stands_in_the_answer(caller, inner, pointer):
    body = b'{"type": "model_decision", "payload": {"a": ' + inner + b"}}"
    assert problem(send(caller, body), 400, "malformed")["pointer"] == pointer


def test_unknown_fields_are_kept_as_the_database_gives_them_back(caller):
    odd = b'[-0.0, 1e17, 0.1, 1e-7, "\xc3\xbc"]'
    body = b'{"type": "model_decision", "payload": {"decision": "tool", "odd": ' + odd + b"}}"
    first = send(caller, body)
    assert first.status_code == 201, first.content
    row = RunEvent.objects.get(pk=first.json()["event"]["id"])
    assert canonical(row.payload) == canonical(first.json()["event"]["payload"])
    assert send(caller, body).status_code == 200


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"5", b"null"])
def test_a_body_is_an_object(caller, body):
    problem(send(caller, body), 400, "malformed")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_only_json_is_understood(caller, kind):
    problem(send(caller, b"{}", content_type=kind), 415, "unsupported_media_type")


def test_a_body_has_at_most_a_mebibyte(caller):
    body = b'{"type": "model_decision", "payload": {"decision": "tool", "x": "' + b"y" * (1 << 20) + b'"}}'
    assert problem(send(caller, body), 413, "too_large")["limit_bytes"] == 1 << 20


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["runs/run_%00", "runs/x", "tasks/..", "runs/run_" + "I" * 26, "nothing", "runs/"]
)
def test_impossible_addresses_are_not_found(path):
    machine = Caller(factories.worker().token)
    problem(machine.get(path), 404, "not_found")
