"""What tests of the review pages do again and again."""

from __future__ import annotations

import html
import re
from typing import Any

from django.test import Client
from django.urls import reverse

from approvals.models import ApprovalRequest
from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import Run
from tests import factories as make

WAITING = RunStatus.WAITING_FOR_APPROVAL
P = PersonRole


def large_patch(files: int, lines: int) -> bytes:
    """A patch that adds so many files with so many lines each."""
    body = "".join(f"+value_{n} = {n}  # the line that stands at {n}\n" for n in range(lines))
    return "".join(
        f"diff --git a/big/f{n:04}.py b/big/f{n:04}.py\nnew file mode 100644\n--- /dev/null\n"
        f"+++ b/big/f{n:04}.py\n@@ -0,0 +1,{lines} @@\n{body}"
        for n in range(files)
    ).encode()


def waiting_with_patch(patch: bytes, **fields: Any) -> ApprovalRequest:
    """A request for this patch."""
    holder = make.run_in(RunStatus.EXECUTING, **fields)
    holder.hand_in(patch)
    make.drive(holder, WAITING)
    return ApprovalRequest.objects.get(run_id=holder.run_id, status="open")


def waiting(**fields: Any) -> ApprovalRequest:
    holder = make.run_in(WAITING, **fields)
    return ApprovalRequest.objects.get(run_id=holder.run_id, status="open")


def text(response: Any) -> str:
    """What is read on the page: without tags, with single spaces."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def page(client: Client, request: ApprovalRequest) -> Any:
    return client.get(reverse("approval", args=[request.pk]))


def post(client: Client, request: ApprovalRequest, decision: str = "approve", **fields: str) -> Any:
    shown = {"version": request.version, "subject_sha256": request.subject_sha256}
    return client.post(
        reverse("approval-decision", args=[request.pk]), {**shown, "decision": decision, **fields}
    )


def status_of(request: ApprovalRequest) -> str:
    return Run.objects.get(pk=request.run_id).status
