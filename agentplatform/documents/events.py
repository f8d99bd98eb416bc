"""``events.md``: what each event may carry, from the shapes that check it."""

from __future__ import annotations

from agentplatform.documents.markdown import code, codes, section, table
from agentplatform.documents.markdown import page as whole
from runs.domain.facts import Json
from runs.domain.payloads import SHAPES, Field
from runs.domain.table import CLAIM_EVENTS, PEOPLE_EVENTS, posting_roles
from runs.domain.versions import version_of
from runs.domain.vocabulary import MACHINE_ROLES, Ev

_INTRO = (
    "Fields of `payload`, by event type. Unknown fields are kept and ignored; a wrong one is refused by "
    "its name. An optional field that is null counts as left out. What the control plane worked out "
    "itself stands in `facts`, which no caller can write. [Lifecycle](lifecycle.md) says when each may be "
    "posted, and by whom."
)


def page() -> str:
    """The file."""
    return whole("Events", _INTRO, *(_event(event) for event in Ev))


def _event(event: Ev) -> str:
    shape = SHAPES.get(event, {})
    fields = (
        table(("field", "type", "required"), _rows(shape)) if shape else "No fields are read from callers."
    )
    about = f"{event.label}. {_origin(event)} Schema version {version_of(event)}."
    return section(code(event), about, fields)


def _origin(event: Ev) -> str:
    if event in CLAIM_EVENTS:
        return "Made by a claim (`POST leases`), never posted."
    if event in PEOPLE_EVENTS:
        return "Made by the endpoints for people; posted to `/events` it is refused."
    machines = [role for role in MACHINE_ROLES if role in posting_roles(event)]
    if machines:
        return f"Posted by {codes(machines)}."
    return "Appended by the control plane itself."


def _rows(shape: dict[str, Field]) -> list[tuple[str, ...]]:
    return [
        (code(name), words_of(field.schema), "yes" if field.required else "") for name, field in shape.items()
    ]


def words_of(schema: Json) -> str:
    """A JSON Schema as people read it."""
    if "oneOf" in schema:
        return " or ".join(words_of(one) for one in schema["oneOf"])
    if "enum" in schema:
        return f"one of {codes(schema['enum'])}"
    kind = schema["type"]
    if kind == "object" and "properties" in schema:
        inner = [f"{code(name)} ({words_of(one)})" for name, one in schema["properties"].items()]
        return f"object: {'; '.join(inner)}"
    if kind == "array":
        return f"list of {words_of(schema['items'])}, at most {schema['maxItems']}"
    return f"{kind}{_bounds(schema)}"


def _bounds(schema: Json) -> str:
    bounds = [f"at most {schema['maxLength']} characters"] if "maxLength" in schema else []
    bounds += [f"matching {code(schema['pattern'])}"] if "pattern" in schema else []
    bounds += [f"from {schema['minimum']} to {schema['maximum']}"] if "minimum" in schema else []
    return f", {', '.join(bounds)}" if bounds else ""
