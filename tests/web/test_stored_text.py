"""Text of strangers in every place where text is kept, and every page, answer and letter that might show it.

A payload that got past escaping would be an element ``x5s`` or an attribute ``onx5s`` on some page. It closes
what it may stand in: quotes, tags, scripts, comments, raw text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.core import mail
from django.db import DatabaseError, models, transaction
from django.test import Client
from django.urls import reverse

from agentplatform.clock import database_now
from approvals.models import ApprovalRequest, Notice
from approvals.notices.letters import send_letters
from approvals.notices.tell import News, tell
from approvals.notices.words import Kind
from runs import service
from runs.auth import of_person
from runs.domain import vocabulary
from runs.domain.vocabulary import ArtifactKind, Ev, PersonRole, RunStatus
from runs.models import LiveLog, LogChunk, Person
from runs.outbox import Relayed
from tests import factories as make
from tests.api.calls import Caller
from tests.api.test_permissions import routes
from tests.web.test_page_permissions import pages

pytestmark = pytest.mark.django_db

PAYLOAD = "'\"></script></title></textarea></style>--><x5s onx5s=1>"
URL = "javascript:x5s()//"
#: What the columns below hold names and kinds that the code reads.
WORDS = {
    str(word.value)
    for kind in vars(vocabulary).values()
    if isinstance(kind, type) and issubclass(kind, vocabulary.Word) and kind is not vocabulary.Word
    for word in kind
}
#: Columns of words that are empty in this world.
NOT_TEXT = {
    "session_data",
    "password",
    "isolation",
    "directive",
    "gate",
    "failure_category",
    "claim_role",
    "checks",
}
_NAMES = re.compile(r"[a-z]{2,5}_[0-9A-Z]{26}|[0-9a-f]{12,64}|[a-z_]{1,20}|op-\d+|setup|file://.*|\w+@\d+.*")


class _Reader(HTMLParser):
    """What a browser would make of a page, as far as scripts go."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name.startswith("on") or (value or "").strip().lower().startswith("javascript:"):
                self.found.append(f"<{tag} {name}={value}>")
        if tag == "x5s" or (tag == "script" and not dict(attrs).get("src") and not dict(attrs).get("type")):
            self.found.append(f"<{tag}>")


def _active(page: str) -> list[str]:
    reader = _Reader()
    reader.feed(page)
    return reader.found


def test_the_reader_finds_what_it_looks_for():
    for place in (
        "<p>%s</p>",
        '<a title="%s">x</a>',
        "<script>var a = '%s'</script>",
        "<textarea>%s</textarea>",
    ):
        assert _active(place % PAYLOAD), place
    assert _active(f'<a href="{URL}">x</a>')
    assert not _active("<p>&lt;x5s onx5s=1&gt;</p>")


@pytest.fixture
def world() -> dict[str, str]:
    """A run at its gate with all that a worker may say, told by somebody who says nothing else."""
    sam = make.person(PersonRole.SUBMITTER, name=f"sam{PAYLOAD}", email="sam@example.com")
    where = make.repository()
    contract: Any = {
        "title": PAYLOAD, "instruction": PAYLOAD,  "allowed_paths": ["**", PAYLOAD],
        "setup": [PAYLOAD], "plan_approval": "never", "base_branch": "main",
    }  # fmt: skip
    holder = make.run_in(RunStatus.EXECUTING, where=where, by=sam, **contract)
    holder.post(Ev.MODEL_DECISION, decision="tool", summary=PAYLOAD, model=PAYLOAD, provider=PAYLOAD)
    call: Any = {"operation_id": "op-1", "tool": PAYLOAD, "label": PAYLOAD, "arguments": {PAYLOAD: PAYLOAD}}
    holder.post(Ev.TOOL_REQUESTED, **call)
    said = holder.upload(ArtifactKind.OUTPUT, PAYLOAD.encode())
    ended: Any = {"outcome": "failed", "summary": PAYLOAD, "output_artifact_id": said}
    holder.post(Ev.TOOL_COMPLETED, operation_id="op-1", **ended)
    log = LiveLog.objects.create(
        run=holder.run,
        operation_id="op-2",
        fence=1,
        worker_id=holder.run.worker_id,
        created_at=database_now(),
    )
    LogChunk.objects.create(log=log, start=0, data=PAYLOAD.encode())
    name = PAYLOAD.replace("/", "|")
    patch = make.patch_writing({f"{name}.py": f"def f():\n    {PAYLOAD}\n" * 3, "clock.py": f"{PAYLOAD}\n"})
    holder.hand_in(patch)
    holder.begin_checks()
    holder.check()
    holder.judge(confidence=0.1, reasons=[PAYLOAD], feedback=PAYLOAD)
    request = ApprovalRequest.objects.get(run_id=holder.run_id)
    service.run_note(run_id=holder.run_id, text=PAYLOAD, by=of_person(sam).caller)
    opened = make.run_in(RunStatus.SUCCEEDED, where=where, by=sam).run
    hold = service.hold_set(scope="repository", value=where.name, reason=PAYLOAD, by=PAYLOAD[:200])
    return {
        "task_id": holder.run.task_id,
        "run_id": holder.run_id,
        "artifact_id": (holder.state.patch or {})["id"],
        "operation_id": "op-1",
        "index": "0",
        "name": where.name,
        "repository": where.name,
        "approval_id": request.pk,
        "pull_request_id": opened.pull_request.pk,
        "hold_id": hold.id,
    }


def _fill() -> int:
    """The payload into every column of text that the database lets change, but for names and kinds."""
    filled = 0
    for model in apps.get_models():
        if model._meta.app_label in ("runs", "approvals", "axes"):
            for row in model._default_manager.all()[:20]:
                for field in model._meta.concrete_fields:
                    filled += _put(row, field)
    return filled


def _put(row: models.Model, field: models.Field) -> bool:
    value = getattr(row, field.attname)
    if not isinstance(field, models.CharField | models.TextField) or field.primary_key or field.choices:
        return False
    if (value and (value in WORDS or _NAMES.fullmatch(value))) or field.name in NOT_TEXT:
        return False
    text = URL if "url" in field.name else PAYLOAD
    if field.unique:
        text = f"{row.pk}{text}"
    try:
        with transaction.atomic():
            type(row)._default_manager.filter(pk=row.pk).update(**{field.attname: text[: field.max_length]})
    except DatabaseError:
        return False  # the database itself refuses it there
    return True


def _addresses(ids: dict[str, str]) -> Iterator[str]:
    for page in pages():
        if set(re.findall(r"{(\w+)}", page)) <= ids.keys() and not page.endswith("{action}/"):
            yield "/" + page.format(**ids)
    yield f"/runs/{ids['run_id']}/logs/op-2/"
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        yield reverse(f"{name}_changelist")
        for row in model._default_manager.order_by("-pk")[:1]:
            yield reverse(f"{name}_change", args=[row.pk])


def test_no_page_shows_strangers_text_as_anything_but_text(world):
    chief = Person.objects.create_superuser("chief", email="chief@example.com")
    filled = _fill()
    assert filled > 60, filled
    browser, shown = Client(), 0
    browser.force_login(chief)
    for address in _addresses(world):
        answer = browser.get(address)
        assert answer.status_code < 500, address
        body = b"".join(answer) if answer.streaming else answer.content
        if answer["Content-Type"].startswith("text/html"):
            page = body.decode()
            assert not _active(page), (address, _active(page))
            shown += "x5s" in page
        else:
            assert answer["X-Content-Type-Options"] == "nosniff", address
    assert shown > 40, "the text is on most pages, or the proof is none"


def test_the_api_answers_strangers_text_as_data_alone(world):
    caller = Caller(make.person_token(make.person(PersonRole.ADMIN)))
    for method, route in routes():
        if method == "GET" and set(re.findall(r"{(\w+)}", route)) <= world.keys():
            answer = caller.get(route.format(**world))
            assert answer["X-Content-Type-Options"] == "nosniff"
            assert "html" not in answer["Content-Type"], route


def test_a_letter_is_plain_text_with_one_line_for_its_subject():
    rita = make.person(PersonRole.REVIEWER, name="rita", email="rita@example.com")
    title = f"{PAYLOAD}\r\nBcc: all@example.com"
    news = News(
        cause="c",
        kind=Kind.FAILED,
        subject="run_1",
        title=title,
        sentence=PAYLOAD,
        href="/runs/run_1/",
        repository_id=None,
    )
    tell(news, {rita: PAYLOAD})
    Notice.objects.update(send_at=database_now() - timedelta(hours=1))
    send_letters(Relayed())
    (letter,) = mail.outbox
    assert letter.content_subtype == "plain"
    assert not getattr(letter, "alternatives", [])
    assert letter.recipients() == ["rita@example.com"]
    assert len(letter.subject.splitlines()) == 1
    assert letter.message()["Bcc"] is None
