"""What would become of a contract, said before it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runs.domain.contract import check_contract, normalise, rejection_reasons
from runs.domain.facts import Json
from runs.models import Repository
from runs.selectors.policies import effective_policies

_MISSING = "is required"


def contract_check(*, repository: Repository | None, data: Mapping[str, Any]) -> Json:
    """``{missing: [field], wrong: [(field, texts)], reasons: [text]}``; all empty where it would be taken.

    One query.
    """
    contract = normalise({**data, "repository": repository.name if repository else ""})
    if repository:
        contract["base_branch"] = contract["base_branch"] or repository.base_branch
    errors = check_contract(contract)
    missing = [name for name, texts in errors.items() if all(text.endswith(_MISSING) for text in texts)]
    wrong = [(name, texts) for name, texts in errors.items() if name not in missing]
    reasons: list[str] = []
    if repository and not wrong and not missing:
        policy = effective_policies(repository_ids=[repository.pk])[repository.pk]
        reasons = rejection_reasons(contract, policy.values)
    return {"missing": missing, "wrong": wrong, "reasons": reasons}
