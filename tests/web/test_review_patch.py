"""Reading a patch on its review page: its order and look, what is around it, new in it, and said of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from approvals.models import ApprovalRequest, Decision
from runs.domain.payloads import MAX_TEXT
from runs.domain.vocabulary import Ev, RunStatus
from runs.models import Artifact, Run
from tests import factories as make
from tests.evidence import stored_at
from tests.reviewing import WAITING, P, page, post, status_of, text, waiting

pytestmark = pytest.mark.django_db

LONG = "".join(f"value_{n} = {n}\n" for n in range(450))


@pytest.fixture
def carol(client: Client):
    somebody = make.person(P.REVIEWER, name="carol")
    client.force_login(somebody)
    return somebody


def waiting_with(files: dict[str, str], **fields: Any) -> ApprovalRequest:
    """A request whose patch writes these files."""
    holder = make.run_in(RunStatus.EXECUTING, **fields)
    holder.hand_in(make.patch_writing(files))
    make.drive(holder, WAITING)
    return ApprovalRequest.objects.get(run_id=holder.run_id, status="open")


def patch_of(request: ApprovalRequest) -> Artifact:
    return Artifact.objects.get(pk=request.subject["id"])


def names(response: Any) -> list[str]:
    found = re.findall(r'data-open href="#f\d+">(.*?)</a></h3>', response.content.decode())
    return [re.sub(r"<[^>]+>", "", name) for name in found]


# --- order, look, lines around ---------------------------------------------------------------------


def test_risky_files_come_first_then_unplanned_ones_then_tests(client, carol):
    files = {
        "a.py": "A = 1\n",
        "clock.py": make.EDITED,
        "test_clock.py": "def test(): ...\n",
        "tox.ini": "\n",
    }
    holder = make.run_in(RunStatus.PLANNING)
    holder.plan(files=["clock.py", "test_clock.py"])
    holder.hand_in(make.patch_writing(files))
    make.drive(holder, WAITING)
    shown = page(client, ApprovalRequest.objects.get())
    assert names(shown) == ["tox.ini", "a.py", "test_clock.py", "clock.py"]
    assert "test_clock.py test" in text(shown)


def test_the_look_is_in_the_address_and_a_chosen_one_is_kept(client, carol):
    request = waiting()
    address = reverse("approval", args=[request.pk])
    usual, split = client.get(address), client.get(address, {"view": "split", "space": "ignore"})
    assert 'class="diff split"' not in usual.content.decode()
    assert 'class="diff split"' in split.content.decode()
    assert "?space=ignore&amp;view=unified" in split.content.decode()
    client.cookies["view"] = "split"
    assert 'class="diff split"' in client.get(address).content.decode()
    assert 'class="diff split"' not in client.get(address, {"view": "unified"}).content.decode()


def test_every_line_has_an_address_of_its_own(client, carol):
    raw = page(client, waiting()).content.decode()
    assert 'id="f1L5"' in raw
    assert 'id="f1R5"' in raw
    assert 'href="#f1R5"' in raw


def test_lines_around_a_hunk_come_from_the_base(client, carol):
    request = waiting()
    shown = page(client, request).content.decode()
    (href,) = re.findall(r'<a class="link" href="([^"]*/around/[^"]*)"[^>]*>Show</a>', shown)
    rows = client.get(href.replace("&amp;", "&"), headers={"HX-Request": "true"}).content.decode()
    assert 'id="f1R1"' in rows
    assert "datetime" in rows
    assert "<html" not in rows
    assert "<html" in client.get(href.replace("&amp;", "&")).content.decode()
    patch = patch_of(request)
    end = client.get(reverse("patch_around", args=[patch.pk, 0]), {"first": "90"})
    assert "The file ends here." in text(end)
    assert client.get(reverse("patch_around", args=[patch.pk, 9])).status_code == 404


def test_a_mirror_without_the_base_says_so_and_fetches_nothing(client, carol, settings, tmp_path):
    request = waiting()
    settings.MIRROR_DIR = tmp_path
    answer = client.get(reverse("patch_around", args=[patch_of(request).pk, 0]), {"first": "1", "last": "2"})
    assert "The mirror does not hold this file" in text(answer)
    assert list(tmp_path.iterdir()) == []


def test_one_command_tries_the_patch_in_a_clone(client, carol):
    request = waiting()
    patch = patch_of(request)
    shown = text(page(client, request))
    assert f"git switch --detach {patch.facts['base']['commit']} && curl -fsS" in shown
    assert f"http://testserver/api/v1/artifacts/{patch.pk} | git apply --index" in shown


# --- what is not shown unasked ---------------------------------------------------------------------


def test_a_long_file_is_opened_piece_by_piece_and_approving_unread_is_said(client, carol):
    request = waiting_with({"long.py": LONG, "clock.py": make.EDITED})
    shown = page(client, request)
    assert "The first 400 lines are shown, the rest is not yet." in text(shown)
    assert "Approve without having opened 1 of the files" in text(shown)
    refused = post(client, request, comment="my careful words")
    assert refused.status_code == 422
    assert "1 file of this patch was not opened" in text(refused)
    assert "my careful words" in text(refused)
    assert status_of(request) == WAITING
    (more,) = re.findall(r'data-load hx-get="([^"]+)"', shown.content.decode())
    rest = client.get(more.replace("&amp;", "&"), headers={"HX-Request": "true"}).content.decode()
    assert 'id="f2R450"' in rest
    (seen,) = re.findall(r'name="seen" value="(\w+)"', rest)
    assert post(client, request, seen=seen).status_code == 303
    assert Decision.objects.get().unread == 0


def test_a_line_too_long_for_the_page_is_unread_until_it_was_shown_to_its_end(client, carol):
    end = "and_this_is_the_end"
    request = waiting_with({"clock.py": make.EDITED, "long.js": "x" * 6_000 + end + "\n"})
    shown = page(client, request)
    assert "Approve without having opened 1 of the files" in text(shown)
    assert post(client, request).status_code == 422
    (more,) = re.findall(r'data-load hx-get="([^"]+)"', shown.content.decode())
    rest = client.get(more.replace("&amp;", "&"), headers={"HX-Request": "true"}).content.decode()
    assert end in rest
    (seen,) = re.findall(r'name="seen" value="(\w+)"', rest)
    assert post(client, request, seen=seen).status_code == 303
    assert Decision.objects.get().unread == 0


def test_a_patch_whose_bytes_are_away_can_be_sent_back_but_not_approved(client, carol):
    request = waiting_with({"gone.py": "x = 1\n"})
    stored_at(patch_of(request)).unlink()
    assert "its bytes are not readable now" in text(page(client, request))
    refused = post(client, request, unread="on")
    assert refused.status_code == 422
    assert "it cannot be approved" in text(refused)
    assert status_of(request) == WAITING
    assert post(client, request, decision="request_changes", comment="Once more.").status_code == 303


def test_what_was_approved_unread_is_recorded_with_the_decision(client, carol):
    request = waiting_with({"long.py": LONG})
    assert post(client, request, unread="on").status_code == 303
    assert Decision.objects.get().unread == 1
    assert Run.objects.get(pk=request.run_id).events.get(event_type=Ev.APPROVED).facts["unread"] == 1
    assert "carol approved" in text(page(client, request))
    assert "with 1 file not opened" in text(page(client, request))


def test_every_file_of_a_large_patch_is_listed_with_true_counts_and_can_be_opened(client, carol):
    generated = {f"gen/f{n:03}.txt": "x\n" * 60 for n in range(119)}
    lock = {"package-lock.json": "{}\n" * 15_000}
    request = waiting_with({**generated, **lock, "zz_auth.py": "ALLOW = True\nDENY = False\n"})
    shown = page(client, request)
    listed = names(shown)
    assert len(listed) == 121
    assert "121 files, +22,142 −0" in text(shown)
    assert len(shown.content) < 1_500_000
    raw = shown.content.decode()
    digest = next(head for head in raw.split("<section")[1:] if ">zz_auth.py<" in head)
    (address,) = re.findall(r'data-load hx-get="([^"]+)"', digest)
    assert "ALLOW" in client.get(address.replace("&amp;", "&")).content.decode()


# --- what changed since the last look --------------------------------------------------------------


def sent_back_and_again(client: Client, **judged: Any) -> tuple[ApprovalRequest, ApprovalRequest]:
    """A patch that bob sent back, and the one that came then."""
    holder = make.run_in(WAITING)
    old = ApprovalRequest.objects.get(run_id=holder.run_id)
    client.force_login(make.person(P.REVIEWER, name="bob"))
    post(client, old, "request_changes", comment="and tell the zone")
    holder = make.drive(make.claim(holder.machine, holder.run), RunStatus.EXECUTING)
    edited = make.EDITED.replace("datetime.UTC", "ZONE") + "\nZONE = datetime.UTC\n"
    holder.hand_in(make.patch_writing({"clock.py": edited, "zone.py": "ZONE = 0\n"}))
    make.drive(holder, RunStatus.JUDGING).judge(**judged)
    old.refresh_from_db()
    return old, ApprovalRequest.objects.get(status="open")


def test_the_next_patch_shows_which_instructions_are_met_and_what_is_new(client, carol):
    old, new = sent_back_and_again(client, instructions_met={"1": True, "2": False})
    client.force_login(carol)
    shown = text(page(client, new))
    assert re.search(r"Replace datetime.utcnow\(\) by an aware time. (Met|met|\W)* ?met", shown)
    assert "and tell the zone not met" in shown
    assert "Since the request before (bob asked for changes" in shown
    assert "2 files differ from the patch before." in shown
    assert "zone.py was not changed before" in shown
    assert re.search(r"− \+ return datetime\S*now\(datetime.UTC\)", shown)
    assert re.search(r"\+ \+ return datetime\S*now\(ZONE\)", shown)
    older = text(page(client, old))
    assert "bob requested changes" in older
    assert "Review the newer request" in older


def test_a_request_is_shown_though_the_patch_before_it_is_lost(client, carol, settings):
    old, new = sent_back_and_again(client, instructions_met={"1": True, "2": False})
    sha256 = Artifact.objects.get(pk=old.subject["id"]).sha256
    (Path(settings.ARTIFACT_DIR) / sha256[:2] / sha256).unlink()
    client.force_login(carol)
    assert client.get(f"/approvals/{new.pk}/").status_code == 200


def test_a_decision_on_a_replaced_patch_shows_the_new_one_with_the_comment_in_its_form(client, carol):
    old, new = sent_back_and_again(client)
    client.force_login(carol)
    typed = {"comment": "my careful words", **remark("why here?")}
    refused = post(client, old, "request_changes", **typed)
    raw = refused.content.decode()
    assert refused.status_code == 409
    assert f'action="{reverse("approval-decision", args=[new.pk])}"' in raw
    lost = r"clock.py:5 \(in what was shown before\)\s+why here\?"
    assert re.search(rf'<textarea id="verdict-comment"[^>]*>my careful words\s+{lost}<', raw)
    assert "This page shows the newer request now" in text(refused)
    assert not Decision.objects.filter(by=carol).exists()
    assert status_of(new) == WAITING


def replaced(client: Client, before: str, after: str) -> ApprovalRequest:
    """A request whose patch bob sent back, and that came again with another ``zone.py``; the older one."""
    holder = make.run_in(RunStatus.EXECUTING)
    holder.hand_in(make.patch_writing({"clock.py": make.EDITED, "zone.py": before}))
    old = ApprovalRequest.objects.get(run_id=make.drive(holder, WAITING).run_id)
    client.force_login(make.person(P.REVIEWER, name="bob"))
    post(client, old, "request_changes", comment="smaller")
    holder = make.drive(make.claim(holder.machine, holder.run), RunStatus.EXECUTING)
    holder.hand_in(make.patch_writing({"clock.py": make.EDITED, "zone.py": after}))
    make.drive(holder, WAITING)
    return old


def test_one_byte_changed_since_decides_nothing_shows_it_and_keeps_every_word(client, carol):
    old = replaced(client, "ZONE = 0\n", "ZONE = 1\n")
    client.force_login(carol)
    refused = post(client, old, comment="my careful words", **remark("why here?"))
    raw = refused.content.decode()
    assert refused.status_code == 409
    assert not Decision.objects.filter(by=carol).exists()
    assert status_of(old) == WAITING
    assert "1 file differs from the patch before, 1 is as before." in text(refused)
    assert re.search(r"− \+ ZONE = <?.*0 .*\+ \+ ZONE = .*1", text(refused))
    assert ">my careful words</textarea>" in raw
    assert ">why here?</textarea>" in raw


def test_a_remark_goes_along_to_its_line_in_the_patch_that_came_meanwhile(client, carol):
    old = replaced(client, "A = 1\nZONE = 0\n", "ZONE = 0\n")
    client.force_login(carol)
    refused = post(client, old, "request_changes", **remark("Why zero?", path="zone.py", line="2"))
    (begun,) = re.findall(r"<details[^>]*data-begun.*?</details>", refused.content.decode(), re.DOTALL)
    assert 'name="remark_path" value="zone.py"' in begun
    assert re.search(r'name="remark_line"[^>]* value="1"', begun)
    assert ">Why zero?</textarea>" in begun


# --- remarks on lines ------------------------------------------------------------------------------


def remark(said: str, path: str = "clock.py", side: str = "new", line: str = "5") -> dict[str, str]:
    """The fields of one remark as the page posts them."""
    return {"remark_path": path, "remark_side": side, "remark_line": line, "remark_text": said}


def test_a_remark_on_a_line_becomes_part_of_the_instruction(client, carol):
    request = waiting()
    typed = {"comment": "Nearly.\r\nOne thing:", **remark("Name the zone.")}
    assert post(client, request, "request_changes", **typed).status_code == 303
    quote = ">     return datetime.datetime.now(datetime.UTC)"
    said = f"Nearly.\nOne thing:\n\nclock.py:5\n{quote}\nName the zone."
    assert request.task.instructions.get(number=2).text == said
    assert Decision.objects.get().comment == said


def test_a_remark_alone_is_reason_enough(client, carol):
    request = waiting()
    assert post(client, request, "request_changes", **remark("Keep it.", side="old")).status_code == 303
    quote = ">     return datetime.datetime.utcnow()"
    assert Decision.objects.get().comment == f"clock.py:5 (as it was)\n{quote}\nKeep it."


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"line": ""}, "say which line of clock.py you mean"),
        ({"path": "other.py"}, "other.py is no file of this patch"),
    ],
)
def test_a_remark_without_a_place_is_asked_for_and_not_lost(client, carol, wrong, said):
    request = waiting()
    refused = post(client, request, "request_changes", **remark("Name the zone.", **wrong))
    assert refused.status_code == 422
    assert said in text(refused)
    assert "Name the zone.</textarea>" in refused.content.decode()


def test_a_comment_has_one_longest_length(client, carol):
    request = waiting()
    assert post(client, request, "reject", comment="x" * (MAX_TEXT + 1)).status_code == 422
    assert f'maxlength="{MAX_TEXT}"' in page(client, request).content.decode()
    assert post(client, request, "reject", comment="x" * MAX_TEXT).status_code == 303
