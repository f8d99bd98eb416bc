"""The only place where apps meet: who listens inside a run's transaction, and who hears of it afterwards,
and who knows whose turn a review is."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.contrib.auth.signals import user_logged_in

from agentplatform import measures
from approvals.asking import clock
from approvals.folding import REQUESTS
from approvals.notices import consumer, letters, webhooks
from approvals.projection import follow_run
from runs import outbox, projections, service, timeouts
from runs.auth import Principal
from runs.selectors import reviews, teams
from runs.selectors.attention import AttentionCollector
from runs.selectors.gauges import FleetCollector
from runs.web.accounts import remember_where


def connect() -> None:
    """Make the introductions; called once, when all apps are ready."""
    projections.listen(follow_run)
    projections.follow(REQUESTS)
    outbox.register("pull_requests", outbox.nudge_pull_requests, wants={"RunPrCreating"})
    outbox.register("parts", _cancel_parts, wants={"TaskCancelled"})
    outbox.register("notices", consumer.hear, wants=consumer.WANTED, claim_seconds=consumer.CLAIM_SECONDS)
    timeouts.also(clock.tick)
    outbox.sends_out(letters.send_letters)
    outbox.register("webhooks", webhooks.put_in_line)
    outbox.sends_out(webhooks.send_webhooks)
    reviews.ask(_turns)
    measures.collect_from(AttentionCollector())
    measures.collect_from(FleetCollector())
    reviews.ask_stuck(_stuck)
    teams.ask(_owning_teams)
    user_logged_in.connect(remember_where, dispatch_uid="agentplatform.sessions")


def _cancel_parts(message: outbox.Message) -> None:
    service.parts_cancel(task_id=message.stream)


def _turns(principal: Principal) -> frozenset[str]:
    from approvals.selectors import filtered_requests

    return frozenset(filtered_requests(principal, mine=True).values_list("run_id", flat=True))


def _stuck(repository_ids: Collection[str], run_ids: Collection[str] | None) -> frozenset[str]:
    from approvals.selectors import stuck_runs

    return stuck_runs(repository_ids, run_ids)


def _owning_teams() -> Iterable[tuple[str, str]]:
    from approvals.asking.owners import owning_teams

    return owning_teams()
