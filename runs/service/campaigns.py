"""Make a campaign, and what people do with it; by the same steps as a task's: lock, decide, write, outbox.

Authorised by the caller. What follows for its tasks is done after the commit, see ``campaign_steps``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from django.db import IntegrityError, transaction

from agentplatform.clock import database_now
from runs import store
from runs.domain.campaigns import decide
from runs.domain.campaigns.decide import Draft
from runs.domain.campaigns.limits import MOST_PARTS, check_limits, waves_of, with_defaults
from runs.domain.campaigns.selection import Selection, check_selection, select
from runs.domain.campaigns.state import CampaignState
from runs.domain.campaigns.words import CampaignEv, CampaignStatus
from runs.domain.commands import Caller
from runs.domain.contract import check_contract, normalise, rejection_reasons
from runs.domain.errors import IdempotencyKeyReused, Invalid
from runs.domain.facts import Actor, Json, fingerprint
from runs.domain.holds import HoldScope
from runs.domain.payloads import MAX_REASON
from runs.domain.vocabulary import Role
from runs.models import Campaign, Hold, Repository
from runs.models.campaigns import campaign_id
from runs.service.policies import effective_policies

#: Complaints of one kind that are named one by one.
_MOST_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """What a campaign would do: its repositories in their order, and how many each wave begins."""

    contract: Json
    limits: Json
    selection: list[str]
    repositories: list[Repository]

    @property
    def waves(self) -> list[int]:
        """How many repositories each wave adds."""
        return waves_of(self.limits, len(self.repositories))

    @property
    def most_cost_usd(self) -> Decimal | None:
        """The most that all tasks may cost, US dollars; None where the contract names no budget."""
        each, cap = self.contract["budget"].get("max_cost_usd"), self.limits["max_cost_usd"]
        if each is None:
            return None
        most = Decimal(str(each)) * len(self.repositories)
        return most if cap is None else min(most, Decimal(str(cap)))


def campaign_plan(*, data: Mapping[str, Any], known: Iterable[Repository]) -> CampaignPlan:
    """What would be made of ``data`` ``{contract, repositories, …limits}``; writes nothing.

    Raises ``Invalid`` with everything that is wrong.

    ``known``: the repositories in which the caller may start tasks.
    """
    message = check_selection(data.get("repositories"))
    selection = [] if message else [str(line).strip() for line in data["repositories"]]
    by_name = {repository.name: repository for repository in known}
    found = select(selection, by_name)
    repositories = [by_name[name] for name in found.names]
    contract, wrong = _contract(data.get("contract"), repositories)
    wrong |= {"repositories": [message]} if message else _wrong_repositories(found, len(repositories))
    limits = with_defaults(data)
    if "contract" not in wrong:
        wrong |= check_limits(limits, contract)
    if not wrong:
        wrong |= _rejected(contract, repositories)
    if wrong:
        raise Invalid(wrong)
    return CampaignPlan(contract, limits, selection, repositories)


def _contract(given: Any, repositories: list[Repository]) -> tuple[Json, dict[str, list[str]]]:
    if not isinstance(given, dict):
        return {}, {"contract": ["is required: the fields of a task, as an object"]}
    name = repositories[0].name if repositories else "any"
    contract = normalise({**given, "repository": name})
    wrong = {f"contract.{field}": messages for field, messages in check_contract(contract).items()}
    if given.get("repository"):
        wrong["contract.repository"] = ["is not for a campaign; name its repositories beside the contract"]
    if wrong:
        return {}, {"contract": ["is not right; see its fields"], **wrong}
    del contract["repository"]
    return contract, {}


def _wrong_repositories(found: Selection, count: int) -> dict[str, list[str]]:
    unknown = found.unmatched[:_MOST_NAMED]
    messages = [f"{line} is no repository in which you may start tasks" for line in unknown]
    if not count and not messages:
        messages.append("chooses no repository at all")
    if count > MOST_PARTS:
        messages.append(f"chooses {count} repositories; at most {MOST_PARTS} make one campaign")
    return {"repositories": messages} if messages else {}


def _rejected(contract: Json, repositories: list[Repository]) -> dict[str, list[str]]:
    """Every repository whose policy would reject the task, with every reason; better now than as failures."""
    policies = effective_policies(repository_ids=[repository.pk for repository in repositories])
    messages = [
        f"{repository.name} would reject it: {' '.join(reasons)}"
        for repository in repositories
        if (reasons := rejection_reasons(contract, policies[repository.pk].values))
    ]
    if (more := len(messages) - _MOST_NAMED) > 0:
        messages[_MOST_NAMED:] = [f"and {more} more would reject it"]
    return {"repositories": messages} if messages else {}


def campaign_create(
    *, data: Mapping[str, Any], known: Iterable[Repository], by: Caller, key: str = ""
) -> tuple[Campaign, bool]:
    """Make a campaign, RUNNING; its first wave is begun by the next sweep. Returns (campaign, made now).

    The same key with the same body answers with the same campaign. Raises ``Invalid`` as ``campaign_plan``
    does, and ``IdempotencyKeyReused``.
    """
    request = fingerprint([dict(data)])
    if key and (earlier := Campaign.objects.filter(created_by_id=by.account, idempotency_key=key).first()):
        return _same_request(earlier, request), False
    plan = campaign_plan(data=data, known=known)
    row = Campaign(
        id=campaign_id(), created_by_id=by.account, idempotency_key=key, request_fingerprint=request
    )
    try:
        with transaction.atomic():
            store.append_campaign(
                store.HeldCampaign(row, CampaignState()), [_creation(plan, by)], now=database_now()
            )
    except IntegrityError as error:
        if "one_campaign_per_idempotency_key" not in str(error):
            raise
        return _same_request(
            Campaign.objects.get(created_by_id=by.account, idempotency_key=key), request
        ), False
    return row, True


def _same_request(campaign: Campaign, request: str) -> Campaign:
    if campaign.request_fingerprint != request:
        raise IdempotencyKeyReused
    return campaign


def _creation(plan: CampaignPlan, by: Caller) -> Draft:
    payload = {
        "title": plan.contract["title"],
        "contract": plan.contract,
        "limits": plan.limits,
        "repositories": plan.selection,
    }
    facts = {"repositories": [repository.pk for repository in plan.repositories]}
    return Draft(CampaignEv.CAMPAIGN_CREATED, payload, facts, _actor(by))


def _actor(by: Caller) -> Actor:
    return Actor(Role.HUMAN, by.account, by.name)


# --- what people do with it -----------------------------------------------------------------------


def campaign_pause(*, campaign_id: str, reason: str, by: Caller, key: str = "") -> Campaign:
    """Let nothing of it be begun, claimed or brought out; what runs is asked to pause by the next sweep."""
    _check_reason(reason)
    want = _Want(CampaignEv.CAMPAIGN_PAUSED, {"reason": reason}, by, key)
    return _act(campaign_id, want, lambda state: decide.pause(state, reason=reason, by=_actor(by)))


def campaign_resume(*, campaign_id: str, by: Caller, key: str = "") -> Campaign:
    """Go on; after it stopped by itself, in spite of what failed until now."""
    want = _Want(CampaignEv.CAMPAIGN_RESUMED, {}, by, key)
    return _act(campaign_id, want, lambda state: decide.resume(state, by=_actor(by)))


def campaign_retry(*, campaign_id: str, by: Caller, key: str = "") -> Campaign:
    """Every failed repository gets a new task. Raises ``NotAllowedNow`` where none failed."""
    want = _Want(CampaignEv.PARTS_RETRIED, {}, by, key)
    return _act(campaign_id, want, lambda state: decide.retry_failed(state, by=_actor(by)))


def campaign_change(*, campaign_id: str, limits: Mapping[str, Any], by: Caller, key: str = "") -> Campaign:
    """Change the limits of an unfinished campaign. Raises ``Invalid`` for those that are fixed or wrong."""
    want = _Want(CampaignEv.CAMPAIGN_CHANGED, {"limits": dict(limits)}, by, key)
    return _act(campaign_id, want, lambda state: decide.change(state, limits, by=_actor(by)))


def campaign_cancel(*, campaign_id: str, reason: str, by: Caller, key: str = "") -> Campaign:
    """Cancel it; its tasks are cancelled by the next sweep. Repeating it changes nothing."""
    _check_reason(reason)
    want = _Want(CampaignEv.CANCEL_REQUESTED, {"reason": reason}, by, key)
    return _act(campaign_id, want, lambda state: decide.cancel(state, reason=reason, by=_actor(by)))


def _check_reason(reason: str) -> None:
    if len(reason) > MAX_REASON:
        raise Invalid({"reason": [f"must be at most {MAX_REASON} characters"]})


@dataclass(frozen=True, slots=True)
class _Want:
    """What somebody asked for, as they asked it: two requests of one key must be the same."""

    event: CampaignEv
    payload: Json
    by: Caller
    key: str

    @property
    def request(self) -> str:
        return fingerprint([self.event.value, self.by.account, self.payload])


@transaction.atomic
def _act(campaign_id: str, want: _Want, drafts_of: Callable[[CampaignState], list[Draft]]) -> Campaign:
    """One command of a person; the same key again changes nothing. Raises a ``Refusal``."""
    held = store.lock_campaign(campaign_id)
    if earlier := store.find_campaign_key(campaign_id, want.key):
        if earlier.fingerprint != want.request:
            raise IdempotencyKeyReused
        return held.row
    before = held.state.status
    if drafts := drafts_of(held.state):
        now = database_now()
        store.append_campaign(held, drafts, now=now, key=want.key, request=want.request)
        _hold_while_paused(held, before, now)
    return held.row


def _hold_while_paused(held: store.HeldCampaign, before: str, now: datetime) -> None:
    """A paused campaign is a hold over its runs, set and lifted with the pause and in no other way."""
    paused, was_paused = (status == CampaignStatus.PAUSED for status in (held.state.status, before))
    if paused == was_paused:
        return
    store.lock_holds()
    if paused:
        pause = held.state.pause or {}
        store.insert_hold(
            Hold(
                scope=HoldScope.CAMPAIGN.value,
                campaign=held.row,
                reason=pause["reason"] or "it is paused",
                set_by=pause["by"],
                set_by_id=pause["by_id"],
                created_at=now,
            )
        )
        return
    for hold in Hold.objects.in_force().filter(campaign=held.row):
        store.end_hold(hold, by=(held.state.resumed or held.state.cancel or {}).get("by", ""), now=now)
