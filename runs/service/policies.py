"""Policies change by new versions (lifecycle contract, section 16)."""

from __future__ import annotations

from django.db import IntegrityError, transaction

from runs import store
from runs.domain.commands import Caller
from runs.domain.errors import Invalid, NotAllowedNow
from runs.domain.facts import Json
from runs.domain.policy import check_values
from runs.models import Policy, PolicyVersion
from runs.models.audit import Act
from runs.service.audit import audit_record


def policy_change(
    *, policy: Policy, values: Json, based_on: int, by: Caller, reason: str = ""
) -> PolicyVersion:
    """The next version, made from version ``based_on`` (0: there was none).

    Raises ``Invalid`` with each field that is wrong, ``NotAllowedNow`` when another version came first.
    """
    if wrong := check_values(values):
        raise Invalid(wrong)
    late = NotAllowedNow("Another version was saved meanwhile; look at it, and change that one.")
    try:
        with transaction.atomic():
            newest = policy.versions.order_by("-number").first()
            if (newest.number if newest else 0) != based_on:
                raise late
            made = store.add_policy_version(policy, values, by=by.name)
            audit_record(
                by=by,
                act=Act.CHANGED,
                row=policy,
                before=newest.values if newest else {},
                after=values,
                note=f"Version {made.number}.",
                reason=reason,
            )
    except IntegrityError:
        raise late from None
    return made
