"""``guards.md`` and ``policy.md``: what is looked at, and what sets the measure."""

from __future__ import annotations

import json
from typing import Any

from agentplatform.documents.markdown import code, section, sentence, table
from agentplatform.documents.markdown import page as whole
from runs.domain.guards import BLOCKING, GUARDS, LABELS, WAIVABLE
from runs.domain.policy import BUDGET, DEFAULTS, MEANINGS, STRICTER, TIMEOUTS

_GUARDS_INTRO = (
    "A patch goes out by itself only while every guard holds. Each is computed by the control plane from "
    "evidence, never from a caller's word; missing evidence counts as failed. Where one fails, a person "
    "is asked, with all of them, what each saw, and what would make it pass. A waiver is a person's, by "
    "name and with a reason."
)
_POLICY_INTRO = (
    "A policy is a named JSON object of these fields, in versions. A repository has one; it may inherit "
    "another, and [rules](../repositories.md#policies-by-pattern) put others over it. Each may only be "
    "tightened: the last column says how two levels meet. A field that no "
    "level sets has the default, which is no ceiling. A task's contract may be stricter still, never "
    "laxer."
)
_EXAMPLE = "Give one with `manage.py create_repository NAME --url URL --policy FILE.json`."


def guards_page() -> str:
    """The file about guards."""
    rows = [
        (
            code(name),
            LABELS[name],
            sentence(guard.__doc__),
            "yes" if name in BLOCKING else "",
            "yes" if name in WAIVABLE else "",
        )
        for name, guard in GUARDS.items()
    ]
    heads = ("guard", "in words", "holds when", "forbids approving", "may be waived")
    return whole("Guards", _GUARDS_INTRO, table(heads, rows))


def policy_page() -> str:
    """The file about policies."""
    rows = [
        (code(name), MEANINGS[name], _default(default), sentence(STRICTER[name].__doc__))
        for name, default in DEFAULTS.items()
    ]
    return whole(
        "Policy",
        _POLICY_INTRO,
        _EXAMPLE,
        table(("field", "meaning", "default", "two levels"), rows),
        section(
            "`risky_paths`", "By default:", "\n".join(f"- {code(path)}" for path in DEFAULTS["risky_paths"])
        ),
        section("`budget` and `budget_ceiling`", _entries(BUDGET)),
        section("`timeouts`", "In seconds.", _entries(TIMEOUTS)),
        section("`approvals`", "People needed, by effective risk.", _entries(DEFAULTS["approvals"])),
    )


def _entries(values: dict[str, Any]) -> str:
    return table(
        ("entry", "default"), [(code(name), code(json.dumps(value))) for name, value in values.items()]
    )


def _default(value: Any) -> str:
    return "see below" if isinstance(value, dict | list) and value else code(json.dumps(value))
