"""The shapes of answers about campaigns, as JSON Schema."""

from __future__ import annotations

from typing import Final

from runs.api.words import (
    ANY_OBJECT,
    FLAG,
    MONEY,
    NUMBER,
    SHA256,
    TEXT,
    TIME,
    WHOLE,
    an_id,
    many,
    one_of,
    or_null,
    shape,
)
from runs.domain.campaigns.words import CampaignEv, CampaignStatus, Completion, PartState
from runs.domain.facts import Json

_CAMPAIGN: Final = shape(
    id=an_id("camp"),
    title=TEXT,
    status=one_of(CampaignStatus),
    sequence=WHOLE,
    contract=ANY_OBJECT,
    repositories=many(TEXT),
    first_wave=WHOLE,
    growth=WHOLE,
    failure_limit_percent=WHOLE,
    pull_requests_per_hour=or_null(WHOLE),
    max_cost_usd=or_null({"oneOf": [MONEY, NUMBER]}),
    completion=one_of(Completion),
    wave=WHOLE,
    opened=WHOLE,
    total=WHOLE,
    counts=shape(**{state.value: WHOLE for state in PartState}),
    spent_usd=MONEY,
    waiting_for=or_null(shape(reason=TEXT, since=TIME, until=or_null(TIME), whose_move=TEXT, sentence=TEXT)),
    created_by=TEXT,
    created_at=TIME,
    updated_at=TIME,
    ended_at=or_null(TIME),
)
_PART: Final = shape(
    repository=TEXT,
    position=WHOLE,
    state=one_of(PartState),
    tries=WHOLE,
    wave=or_null(WHOLE),
    task_id=or_null(TEXT),
    reason=or_null(TEXT),
    accepted=FLAG,
    cost_usd=MONEY,
    started_at=or_null(TIME),
    ended_at=or_null(TIME),
)
_EVENT: Final = shape(
    id=an_id("evt"),
    campaign_id=an_id("camp"),
    sequence=WHOLE,
    type=one_of(CampaignEv),
    from_status=or_null(TEXT),
    to_status=one_of(CampaignStatus),
    actor=shape(type=TEXT, id=TEXT, name=TEXT),
    payload=ANY_OBJECT,
    facts=ANY_OBJECT,
    recorded_at=TIME,
    hash=SHA256,
)

CAMPAIGN_ANSWERS: Final[dict[str, Json]] = {
    "Campaign": _CAMPAIGN,
    "CampaignParts": shape(results=many(_PART), next=or_null(WHOLE)),
    "CampaignEvents": shape(results=many(_EVENT), next=or_null(WHOLE)),
}
