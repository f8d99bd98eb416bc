"""What forges say by themselves. Signed, and then taken as a hint to look: what holds is asked for.

A delivery that comes twice, late or out of order makes one more look and nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from runs import service
from runs.credentials import CredentialsWrong, credential_for
from runs.models import Repository

log = structlog.get_logger(__name__)


@csrf_exempt
@require_POST
def github(request: HttpRequest, name: str) -> HttpResponse:
    """A delivery for the repository ``name`` ("Validating webhook deliveries": HMAC over the raw body)."""
    try:
        body, secret = request.body, credential_for(name, settings.REPOSITORY_CREDENTIALS).webhook_secret
    except RequestDataTooBig:
        return HttpResponse(status=413)
    except CredentialsWrong as error:
        log.warning("webhook_without_credentials", why=str(error))
        return HttpResponse(status=503)
    signature = request.headers.get("X-Hub-Signature-256", "")
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    # Without a secret nothing is taken, and whoever guesses names learns none.
    if not secret or not hmac.compare_digest(signature.encode(), expected.encode()):
        return HttpResponse(status=403)
    repository = Repository.objects.filter(name=name, provider="github").first()
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if repository is None or not isinstance(said, dict):
        return HttpResponse(status=400)
    service.pull_request_nudge(
        repository_id=repository.pk, numbers=set(_numbers(said)), heads=set(_heads(said))
    )
    return HttpResponse(status=204)


def _numbers(said: dict[str, Any]) -> Iterator[int]:
    """Pull requests that the delivery is about: its own, a comment's, or those of a check."""
    checks = [said.get(kind) for kind in ("check_run", "check_suite")]
    linked = [one for check in checks if isinstance(check, dict) for one in check.get("pull_requests") or ()]
    for one in (said.get("pull_request"), said.get("issue"), *linked):
        number = one.get("number") if isinstance(one, dict) else None
        if isinstance(number, int) and 0 < number < 2**31:
            yield number


def _heads(said: dict[str, Any]) -> Iterator[str]:
    """Commits that a status, a check or a push is about."""
    checks = [said.get(kind) for kind in ("check_run", "check_suite")]
    found = [said.get("sha"), said.get("after")]
    for one in (*found, *(check.get("head_sha") for check in checks if isinstance(check, dict))):
        if isinstance(one, str) and one.isalnum():
            yield one[:64]


urlpatterns = [path("github/<str:name>", github, name="webhook_github")]
