"""What forges say by themselves. Authenticated, and then taken as a hint to look: what holds is asked for.

A delivery that comes twice, late or out of order makes one more look and nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

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


def _mac(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


#: Forge → the header that proves where a delivery comes from, and what it must be. GitHub "Validating webhook
#: deliveries" and Gitea "Webhooks": HMAC over the raw body; GitLab "Webhooks": the secret token itself.
_PROOFS: Final[Mapping[str, tuple[str, Callable[[str, bytes], str]]]] = {
    "github": ("X-Hub-Signature-256", lambda secret, body: f"sha256={_mac(secret, body)}"),
    "gitea": ("X-Gitea-Signature", _mac),
    "gitlab": ("X-Gitlab-Token", lambda secret, _: secret),
}


@csrf_exempt
@require_POST
def delivery(request: HttpRequest, forge: str, name: str) -> HttpResponse:
    """A delivery of ``forge`` for the repository ``name``."""
    try:
        body, secret = request.body, credential_for(name, settings.REPOSITORY_CREDENTIALS).webhook_secret
    except RequestDataTooBig:
        return HttpResponse(status=413)
    except CredentialsWrong as error:
        log.warning("webhook_without_credentials", why=str(error))
        return HttpResponse(status=503)
    header, proof = _PROOFS[forge]
    given, expected = request.headers.get(header, ""), proof(secret, body)
    # Without a secret nothing is taken, and whoever guesses names learns none.
    if not secret or not hmac.compare_digest(given.encode(), expected.encode()):
        return HttpResponse(status=403)
    repository = Repository.objects.filter(name=name, provider=forge).first()
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
    linked = [one for check in _checks(said) for one in check.get("pull_requests") or ()]
    own = _object(said, "object_attributes") if said.get("object_kind") == "merge_request" else {}
    for one in (said.get("pull_request"), said.get("issue"), said.get("merge_request"), own, *linked):
        number = one.get("number", one.get("iid")) if isinstance(one, dict) else None
        if isinstance(number, int) and 0 < number < 2**31:
            yield number


def _heads(said: dict[str, Any]) -> Iterator[str]:
    """Commits that a status, a check, a pipeline or a push is about."""
    found = [said.get("sha"), said.get("after"), _object(said, "object_attributes").get("sha")]
    for one in (*found, *(check.get("head_sha") for check in _checks(said))):
        if isinstance(one, str) and one.isalnum():
            yield one[:64]


def _checks(said: dict[str, Any]) -> list[dict[str, Any]]:
    return [_object(said, kind) for kind in ("check_run", "check_suite")]


def _object(said: dict[str, Any], name: str) -> dict[str, Any]:
    found = said.get(name)
    return found if isinstance(found, dict) else {}


urlpatterns = [
    path(f"{forge}/<path:name>", delivery, {"forge": forge}, name=f"webhook_{forge}") for forge in _PROOFS
]
