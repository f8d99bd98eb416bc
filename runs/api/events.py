"""Post events, one or a batch, and read the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rest_framework.request import Request
from rest_framework.response import Response

from runs import service
from runs.api import shapes
from runs.api.base import ApiView
from runs.api.requests import Query, checked_key, idempotency_key, json_object, moment_stamp
from runs.api.schema import says
from runs.api.waiting import wait_for
from runs.api.words import WHOLE
from runs.auth import get_run, require_machine, require_run
from runs.bell import begin_reading
from runs.domain.commands import Caller, Command
from runs.domain.errors import Invalid, Refusal
from runs.domain.facts import Json
from runs.domain.vocabulary import Ev
from runs.models import RunEvent
from runs.selectors.archived import require_log
from runs.service import Outcome

MAX_BATCH: Final = 100
_EVENTS: Final = {event.value: event for event in Ev}


class Events(ApiView):
    """``POST runs/{id}/events`` and ``GET runs/{id}/events``"""

    event_type = ""

    @says(
        answer="EventAnswer",
        status=201,
        also=(200,),
        body="EventBody",
        headers=("Lease-Token", "Idempotency-Key!"),
    )
    def post(self, request: Request, run_id: str) -> Response:
        """Apply one event; the same key and request again get the same answer."""
        require_run(self.principal, run_id)
        require_machine(self.principal)
        body = json_object(request)
        self.event_type = body.get("type", "")
        key = idempotency_key(request, required=True)
        command = read_event(body, key, caller=self.principal.caller, lease_token=self.lease_token)
        made = service.apply_event(run_id, command)
        return _answer([made], {**shapes.result(made), **self._present(made)})

    def _present(self, made: Outcome) -> Json:
        return {"run": shapes.run_now(made, self.principal), "lease": shapes.lease_now(made.lease)}

    @says(answer="EventPage", query={"after": WHOLE, "limit": WHOLE, "wait_seconds": WHOLE})
    def get(self, request: Request, run_id: str) -> Response:
        """The log after a sequence, oldest first; waits while it stands still."""
        run, query = get_run(self.principal, run_id), Query(request)
        require_log(run)
        after, limit = query.integer("after", 0), query.limit
        rows = RunEvent.objects.filter(run=run, sequence__gt=after).order_by("sequence")
        found = wait_for(
            lambda: list(rows[: limit + 1]), seconds=query.wait_seconds, begin=begin_reading(run.pk)
        ).answer
        shown = [shapes.event_row(row) for row in found[:limit]]
        return Response(
            {"results": shown, "next": _rest(request, shown, more=len(found) > limit), "previous": None}
        )


def _rest(request: Request, shown: list[Json], *, more: bool) -> str | None:
    if not more:
        return None
    query = request.query_params.copy()
    query["after"] = str(shown[-1]["sequence"])
    query.pop("wait_seconds", None)
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")


class Batch(Events):
    """``POST runs/{id}/events/batch``"""

    http_method_names = ["post"]

    @says(answer="BatchAnswer", status=201, also=(200,), body="BatchBody", headers=("Lease-Token",))
    def post(self, request: Request, run_id: str) -> Response:
        """Apply up to 100 events in order, all or none."""
        require_run(self.principal, run_id)
        require_machine(self.principal)
        commands = self._commands(json_object(request))
        with _only_item(commands):
            made = service.apply_batch(run_id, commands)
        results = [{**shapes.result(one), "replayed": one.replayed} for one in made]
        return _answer(made, {"results": results, **self._present(made[-1])})

    def _commands(self, body: Json) -> list[Command]:
        items = body.get("events")
        if not isinstance(items, list) or not 1 <= len(items) <= MAX_BATCH:
            raise Invalid({"events": [f"must be a list of 1 to {MAX_BATCH} events"]})
        commands = []
        for index, item in enumerate(items):
            with _item(index):
                if not isinstance(item, dict):
                    raise Invalid({"events": ["each must be an object with key, type and payload"]})
                self.event_type = item.get("type", "")
                key = checked_key(item.get("key"))
                commands.append(
                    read_event(item, key, caller=self.principal.caller, lease_token=self.lease_token)
                )
        return commands


@contextmanager
def _item(index: int) -> Iterator[None]:
    """Adds to a refusal which item it is about."""
    try:
        yield
    except Refusal as refusal:
        refusal.extra.setdefault("index", index)
        raise


@contextmanager
def _only_item(commands: Sequence[Command]) -> Iterator[None]:
    """The service names the item among several; a batch of one has its index, too."""
    if len(commands) > 1:
        yield
    else:
        with _item(0):
            yield


def read_event(item: Json, key: str, *, caller: Caller, lease_token: str) -> Command:
    """One event as sent; ``Invalid`` names every field that is not right."""
    wrong: dict[str, list[str]] = {}
    kind = item.get("type")
    event = _EVENTS.get(kind) if isinstance(kind, str) else None
    if event is None:
        wrong["type"] = ["is not an event type"]
    payload: Any = {} if item.get("payload") is None else item["payload"]
    if not isinstance(payload, dict):
        wrong["payload"] = ["must be an object"]
    expected = item.get("expected_sequence")
    if expected is not None and (not isinstance(expected, int) or isinstance(expected, bool)):
        wrong["expected_sequence"] = ["must be a whole number"]
    if event is None or wrong:
        raise Invalid(wrong)
    occurred_at = moment_stamp(item.get("occurred_at"), "occurred_at")
    return Command(event, payload, caller, key, lease_token, expected, occurred_at)


def _answer(made: Sequence[Outcome], body: Json) -> Response:
    """201, or 200 with a header where everything had been applied before."""
    if not all(one.replayed for one in made):
        return Response(body, status=201)
    return Response(body, headers={"Idempotency-Replayed": "true"})
