"""``api.md``: every call, from the OpenAPI document, with who may make it."""

from __future__ import annotations

from typing import Any, Final

from agentplatform.documents.markdown import code, codes, section, table
from agentplatform.documents.markdown import page as whole
from runs.api.schema import openapi
from runs.auth import Action, Principal, may
from runs.domain.vocabulary import PersonRole
from runs.models import WorkerAccount

Json = dict[str, Any]
_METHODS = ("get", "post", "patch", "delete")
_BASE = "/api/v1/"

_INTRO = f"""\
Addresses below are relative to `{_BASE}`. [openapi.yaml](../openapi.yaml) is the same for machines,
served at `/api/schema/`; `/api/docs/` shows it to people. [Events](events.md) lists payloads,
[Errors](errors.md) refusals.

- **Who calls.** `Authorization: Bearer TOKEN`, of a person or a worker account; pages use the session, with
  `X-CSRFToken`. Somebody who may not know of an object is told that there is none.
- **Strict JSON**, UTF-8, without doubled names, NaN, NUL or lone surrogates.
- **Repeat safely.** With the same `Idempotency-Key` and the same body a call counts once; the repeated
  answer has `Idempotency-Replayed: true`. A refused call leaves its key free.
- **Lists** answer `results`, `next` and `previous`; `limit` is at most 200.
- **`Lease-Token`** is the secret of the active lease, told once, in the answer to the claim."""

_RUN, _TASK = "runs/{run_id}", "tasks/{task_id}"
_CAMPAIGN = "campaigns/{campaign_id}"
_APPROVAL, _PULL = "approvals/{approval_id}", "pull-requests/{pull_request_id}"

#: Who may make which call, in words. A test compares it with the table of roles and routes that the API is
#: called by.
WHO: Final[dict[str, tuple[str, ...]]] = {
    "people and workers, each what they may see": (
        "GET runs",
        "GET pull-requests",
        "GET repositories",
        "GET repositories/{repository}",
        "GET workers",
    ),
    "people, each what they may see": (
        "GET tasks",
        "GET approvals",
        "GET holds",
        "GET campaigns",
        "GET outcomes",
    ),
    "people who may see all of its repositories": (
        f"GET {_CAMPAIGN}",
        f"GET {_CAMPAIGN}/parts",
        f"GET {_CAMPAIGN}/events",
    ),
    "people of the repository": (f"GET {_TASK}", f"GET {_APPROVAL}"),
    "people of the repository, and who holds or held the run": (
        f"GET {_RUN}",
        f"GET {_RUN}/events",
        f"GET {_RUN}/artifacts",
        f"GET {_RUN}/resume",
        f"GET {_RUN}/steps",
        f"GET {_RUN}/attempts",
        f"GET {_RUN}/timeline",
        f"GET {_RUN}/receipt",
        f"GET {_RUN}/logs/{{operation_id}}",
        "GET artifacts/{artifact_id}",
    ),
    "submitter, operator, admin": ("POST tasks", f"POST {_TASK}/run-again", "POST campaigns"),
    "operator, admin; a submitter on their own": (
        f"PATCH {_TASK}",
        f"DELETE {_TASK}",
        f"POST {_TASK}/submit",
        f"POST {_TASK}/cancel",
        f"POST {_TASK}/retry",
        f"POST {_TASK}/access-renewed",
        f"POST {_TASK}/archive",
        f"POST {_TASK}/archive-after",
        f"POST {_TASK}/restore",
        f"POST {_TASK}/instructions",
        f"POST {_RUN}/cancel",
        f"PATCH {_CAMPAIGN}",
        f"POST {_CAMPAIGN}/pause",
        f"POST {_CAMPAIGN}/resume",
        f"POST {_CAMPAIGN}/retry",
        f"POST {_CAMPAIGN}/cancel",
    ),
    "operator, admin": (
        f"POST {_RUN}/resume",
        f"POST {_RUN}/pause",
        f"POST {_RUN}/wind-down",
        f"POST {_APPROVAL}/waivers",
        "POST holds",
        "DELETE holds/{hold_id}",
    ),
    "reviewer, admin; never on their own": (f"POST {_APPROVAL}/decisions",),
    "reviewer, operator, admin": (f"POST {_APPROVAL}/assign", f"POST {_APPROVAL}/snooze"),
    "submitter, reviewer, operator, admin": (f"POST {_RUN}/note",),
    "worker accounts, by their roles": ("POST leases",),
    "who holds the lease": (
        f"POST {_RUN}/heartbeat",
        f"POST {_RUN}/release",
        f"POST {_RUN}/events",
        f"POST {_RUN}/events/batch",
        f"POST {_RUN}/artifacts",
        f"POST {_RUN}/logs",
    ),
    "people of the repository, and git integration": (f"GET {_PULL}",),
    "git integration": (f"POST {_PULL}/state",),
}
_BY_CALL: Final = {call: who for who, calls in WHO.items() for call in calls}


def page() -> str:
    """The file."""
    operations = [
        operation for path, item in openapi()["paths"].items() for operation in _operations(path, item)
    ]
    tags = dict.fromkeys(operation["tags"][0] for operation in operations)
    heads = ("call", "what it does", "who", "takes", "answers")
    groups = [
        section(
            tag.capitalize().replace("-", " "),
            table(heads, [_row(o) for o in operations if o["tags"][0] == tag]),
        )
        for tag in tags
    ]
    return whole("REST API", _INTRO, *groups, section("What roles allow", _permissions()))


def call_of(method: str, path: str) -> str:
    """`POST runs/{run_id}/events`: how a call is named here."""
    return f"{method.upper()} {path.removeprefix(_BASE)}"


def _operations(path: str, item: Json) -> list[Json]:
    return [{**item[method], "call": call_of(method, path)} for method in _METHODS if method in item]


def _row(operation: Json) -> tuple[str, ...]:
    call = operation["call"]
    return (
        code(call),
        operation["summary"].replace("``", "`"),
        _BY_CALL[call],
        _takes(operation),
        _answers(operation["responses"]),
    )


def _takes(operation: Json) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    taken = [_shape(media["schema"]) for media in content.values()]
    parameters = operation["parameters"]
    taken += [code(f"{p['name']}:") for p in parameters if p["in"] == "header"]
    asked = [p["name"] for p in parameters if p["in"] == "query"]
    taken += [code("?" + "&".join(asked))] if asked else []
    return "; ".join(word for word in taken if word)


def _answers(responses: Json) -> str:
    found = [
        " ".join([status, *(_shape(media["schema"]) for media in answer.get("content", {}).values())])
        for status, answer in responses.items()
        if status.startswith("2")
    ]
    return ", ".join(found)


def _shape(schema: Json) -> str:
    """A component by its name; what is none is bytes."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return "" if name == "NothingBody" else name or "bytes"


def _permissions() -> str:
    rows = [(code(action), _allowed(action)) for action in Action]
    return table(("action", "who may"), rows)


def _allowed(action: Action) -> str:
    people = codes(role for role in PersonRole if _may(role, action))
    if not may(Principal("", "", worker=WorkerAccount()), action, ""):
        return people
    return f"{people}, worker accounts" if action is Action.READ else "worker accounts"


def _may(role: PersonRole, action: Action) -> bool:
    return may(Principal("", "", grants=frozenset({(role.value, "")})), action, "")
