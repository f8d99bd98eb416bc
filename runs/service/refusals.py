"""Refused calls are counted in a table of their own; they leave no trace in the run."""

from __future__ import annotations

from runs import store
from runs.domain.commands import Caller
from runs.models import Lease


def refusal_record(
    *,
    code: str,
    detail: str,
    by: Caller,
    run_id: str = "",
    event_type: str = "",
    lease_token: str = "",
    content_sha256: str = "",
) -> None:
    """Count one refused call of a machine, with the fence of the lease that it named.

    Call it after the refused transaction was rolled back.
    """
    lease_id = lease_token.partition(".")[0]
    fences = Lease.objects.filter(pk=lease_id, run_id=run_id).values_list("fence", flat=True)
    store.record_refusal(
        code=code,
        detail=detail,
        account=by.account,
        account_name=by.name,
        run_id=run_id,
        event_type=event_type,
        fence=fences.first() if lease_id and run_id else None,
        content_sha256=content_sha256,
    )
