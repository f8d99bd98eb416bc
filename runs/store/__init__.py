"""Rows, events and the outbox: every lock and every write of a run or task.

Lock order everywhere: repository, run, task, approval (lifecycle contract, 4.3 rule 2). Only the
modules named in the import rules may call this; decisions are made in ``runs.domain``.
"""

from runs.models.holds import holds_in_force
from runs.store.bell import BELL, TO_CLAIM, ring, watch_run
from runs.store.campaigns import (
    HeldCampaign,
    append_campaign,
    campaign_columns,
    campaign_events_of,
    campaign_state,
    find_campaign_key,
    lock_campaign,
    lock_pace,
    part_columns,
)
from runs.store.chain import hash_of, lease_token, mac
from runs.store.claims import (
    Line,
    claimable_lines,
    lock_claim_key,
    lock_foremost,
    note_asking,
    seconds_to_next,
)
from runs.store.holds import end_hold, insert_hold, lock_holds, share_holds
from runs.store.locks import lock_imports, lock_repositories, lock_repository, lock_run, lock_task
from runs.store.outbox import (
    CONSUMERS,
    begin_try,
    claim_deliveries,
    pass_on,
    publish,
    record_refusal,
    settle_delivery,
)
from runs.store.outcomes import outcome_of
from runs.store.reads import (
    Surroundings,
    active_lease,
    add_policy_version,
    artifacts_of,
    effective_policy,
    event_of,
    events_of,
    find_keys,
    following,
    history_of,
    holds,
    lease_and_clock,
    surroundings,
)
from runs.store.taking import Taken, take_run
from runs.store.tasks import append_task, task_columns, task_event_of, task_events_of
from runs.store.writes import (
    attempt_columns,
    extend_lease,
    insert_run,
    row_columns,
    step_columns,
    write,
)

__all__ = [
    "BELL",
    "CONSUMERS",
    "TO_CLAIM",
    "HeldCampaign",
    "Line",
    "Surroundings",
    "Taken",
    "active_lease",
    "add_policy_version",
    "append_campaign",
    "append_task",
    "artifacts_of",
    "attempt_columns",
    "begin_try",
    "campaign_columns",
    "campaign_events_of",
    "campaign_state",
    "claim_deliveries",
    "claimable_lines",
    "effective_policy",
    "end_hold",
    "event_of",
    "events_of",
    "extend_lease",
    "find_campaign_key",
    "find_keys",
    "following",
    "hash_of",
    "history_of",
    "holds",
    "holds_in_force",
    "insert_hold",
    "insert_run",
    "lease_and_clock",
    "lease_token",
    "lock_campaign",
    "lock_claim_key",
    "lock_foremost",
    "lock_holds",
    "lock_imports",
    "lock_pace",
    "lock_repositories",
    "lock_repository",
    "lock_run",
    "lock_task",
    "mac",
    "note_asking",
    "outcome_of",
    "part_columns",
    "pass_on",
    "publish",
    "record_refusal",
    "ring",
    "row_columns",
    "seconds_to_next",
    "settle_delivery",
    "share_holds",
    "step_columns",
    "surroundings",
    "take_run",
    "task_columns",
    "task_event_of",
    "task_events_of",
    "watch_run",
    "write",
]
