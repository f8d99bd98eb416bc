"""What people hear of campaigns: that one stopped and waits for a decision, that one is complete.

Its tasks that end are not told one by one: two hundred of them say nothing that the campaign does not.
"""

from __future__ import annotations

from typing import Final

from django.urls import reverse

from approvals.notices.tell import News, settle, tell
from approvals.notices.words import Kind
from runs.auth import of_person, visible_campaigns
from runs.domain.campaigns.words import PartState
from runs.models import Campaign, CampaignEvent
from runs.outbox import Message

_GOES_ON: Final = frozenset({"CampaignResumed", "CampaignRetried"})
_IS_OVER: Final = frozenset({"CampaignCancelling", "CampaignCancelled", "CampaignCompleted"})
WANTED: Final = frozenset({"CampaignHalted", *_GOES_ON, *_IS_OVER})


def hear_of_campaign(message: Message) -> None:
    """Tell whoever asked for it, if they may still see it."""
    campaign = Campaign.objects.select_related("created_by").filter(pk=message.stream).first()
    if campaign is None:
        return
    if message.name != "CampaignHalted":
        settle(campaign.pk, "It goes on." if message.name in _GOES_ON else "It is over.")
    if message.name == "CampaignHalted":
        event = CampaignEvent.objects.get(campaign=campaign, sequence=message.sequence)
        said = f"{event.facts['sentence']} Nothing more is begun until you decide."
        _tell(campaign, message, Kind.BLOCKED, said)
    elif message.name == "CampaignCompleted":
        _tell(campaign, message, Kind.COMPLETED, _done(campaign.state["counts"], campaign.parts_total))


def _done(counts: dict[str, int], total: int) -> str:
    failed = counts[PartState.FAILED]
    more = f", {failed} failed" if failed else ""
    return f"{counts[PartState.DONE]} of {total} repositories are done{more}."


def _tell(campaign: Campaign, message: Message, kind: Kind, sentence: str) -> None:
    owner = campaign.created_by
    if not owner.is_active or not visible_campaigns(of_person(owner)).filter(pk=campaign.pk).exists():
        return
    news = News(
        cause=f"{campaign.pk}:{message.sequence}",
        kind=kind,
        subject=campaign.pk,
        title=campaign.title,
        sentence=sentence,
        href=reverse("campaign", args=[campaign.pk]),
        repository_id=None,
    )
    tell(news, {owner: "You asked for this campaign."})
