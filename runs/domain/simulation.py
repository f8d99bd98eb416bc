"""What another policy would have decided on recorded facts: the log is walked, and at each event the same
``decide`` and guards are asked again (lifecycle contract, sections 6 and 16).

The walk follows what was recorded while the answers lead the same way, and ends where one leads elsewhere:
what would have come after it, nobody knows. Where evidence is gone that a decision looked at, the run cannot
be decided from there on, which is not the same as unchanged. Pure: no clock, no dice, no database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from runs.domain import guards
from runs.domain.budgets import next_budget
from runs.domain.commands import Caller, Command, Context, Decision
from runs.domain.contract import rejection_reasons
from runs.domain.decide import decide
from runs.domain.errors import Refusal
from runs.domain.facts import Artifact, Event, Json, moment, transactions
from runs.domain.fold import evolve
from runs.domain.log_limits import LogLimits
from runs.domain.simulation_compare import Difference, differs, judged_by, refused, rejected
from runs.domain.state import RunState
from runs.domain.versions import is_of_the_future, upcast
from runs.domain.vocabulary import MACHINE_ROLES, ArtifactKind, Ev, Role

#: Artifacts that a decision reads the document of.
_READ: Final = frozenset({ArtifactKind.PLAN, ArtifactKind.VERIFICATION_REPORT, ArtifactKind.JUDGE_REPORT})


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run as it was recorded: its log and how many events it had, its contract, its artifacts by id, and
    what its task had before it: the run before it and what all runs before it cost, in US dollars."""

    events: tuple[Event, ...]
    length: int
    contract: Mapping[str, Any]
    artifacts: Mapping[str, Artifact]
    last: RunState | None = None
    spent: Decimal = Decimal(0)
    limits: LogLimits = field(default_factory=LogLimits)


@dataclass(frozen=True, slots=True)
class Simulated:
    """The decisions that would differ, in sequence, and why the rest cannot be decided ("" where it can)."""

    differences: tuple[Difference, ...] = ()
    undecidable: str = ""

    @property
    def is_unchanged(self) -> bool:
        """Whether every decision was asked again and none would differ."""
        return not self.differences and not self.undecidable


class EvidenceGone(Exception):  # noqa: N818  no fault, but an answer: nobody can say
    """What a decision looked at is not there any more."""


def simulate(recorded: Recorded, policy: Mapping[str, Any]) -> Simulated:
    """Every decision of a run's log, asked again under ``policy`` (effective values)."""
    found: list[Difference] = []
    try:
        for difference in _Walk(recorded, policy).differences():
            found.append(difference)  # noqa: PERF402  what came before the gap stands
    except EvidenceGone as gone:
        return Simulated(tuple(found), str(gone))
    return Simulated(tuple(found))


class _Walk:
    """One run's log under another policy."""

    def __init__(self, recorded: Recorded, policy: Mapping[str, Any]) -> None:
        self.recorded, self.policy = recorded, policy
        self.state = RunState()
        self.artifacts = _Kept(recorded.artifacts)

    def differences(self) -> Iterator[Difference]:
        """In sequence, up to the first that leads elsewhere. Raises ``EvidenceGone``."""
        steps = transactions(_whole(self.recorded))
        yield from self._intake(next(steps))
        if self.state.sequence == 0:
            return
        for events in steps:
            for difference in self._step(events):
                yield difference
                if difference.leads_elsewhere:
                    return

    def _intake(self, events: list[Event]) -> Iterator[Difference]:
        """Would the task have been taken at all, and with which limits?"""
        created, contract = events[0], self.recorded.contract
        is_first = created.payload["attempt_no"] == 1
        if is_first and (reasons := rejection_reasons(contract, self.policy)):
            yield rejected(created, reasons)
            return
        recorded = self.recorded
        if recorded.last is None and not is_first:
            raise EvidenceGone("The run before it is gone.")
        limits = next_budget(contract, self.policy, last=recorded.last, spent=recorded.spent)
        simulated = replace(created, payload={**created.payload, "budget": limits})
        yield from differs([created], [simulated], self.state)
        for event in (simulated, *events[1:]):
            evolve(self.state, event)

    def _step(self, events: list[Event]) -> Iterator[Difference]:
        try:
            decision = self._decide(events)
        except Refusal as refusal:
            yield refused(events, refusal, self.state)
            return
        yield from differs(events, decision.events, self.state)
        self.state = decision.state  # go on from what this policy made of it
        self.state.sequence = events[-1].sequence

    def _decide(self, events: list[Event]) -> Decision:
        root = events[0]
        if root.type not in list(Ev) or is_of_the_future(root.type, root.schema_version):
            raise EvidenceGone(f"Event {root.sequence} was written by a newer release.")
        command = self._command(root)
        context = Context(
            now=moment(root.recorded_at),
            policy=self.policy,
            policy_version=judged_by(events, self.state),
            contract=self.recorded.contract,
            artifacts=self.artifacts,
            log_limits=self.recorded.limits,
            lease_is_alive=True,  # it was taken: whoever posted it held the lease
            held=lambda: _held(events),
            new_id=lambda prefix: _id_of(events, prefix),
        )
        try:
            return decide(self.state, command, context)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            why = f"Today's rules cannot read what event {root.sequence} ({root.type}) was decided on"
            raise EvidenceGone(f"{why}: {type(error).__name__}.") from error

    def _command(self, root: Event) -> Command:
        payload, facts = upcast(root.type, root.schema_version, root.payload, root.facts)
        actor = root.actor
        role = Role(actor.type)
        caller = Caller(actor.id, actor.name, frozenset({role}), is_machine=role in MACHINE_ROLES)
        own = {**facts, **self._judged_again(root)}
        return Command(Ev(root.type), payload, caller, root.key, occurred_at=root.occurred_at, facts=own)

    def _judged_again(self, root: Event) -> Json:
        """Facts that our own services take from the policy before they post an event."""
        if root.type == Ev.POLICY_EVALUATED:  # an escalation shows what it was opened with
            return {"guards": self.state.guards, "effective_risk": self.state.effective_risk}
        if root.type != Ev.GUARD_WAIVED:
            return {}
        patch = self.artifacts.get((self.state.patch or {}).get("id", ""))
        evidence = guards.Evidence(
            self.state, self.recorded.contract, self.policy, patch.facts if patch else None
        )
        by, reason = root.actor.name, root.payload["reason"]
        results = guards.evaluate_waived(
            evidence, guard=root.payload["guard"], by=by, reason=reason, at=root.recorded_at
        )
        return {"guards": [result.to_json() for result in results]}


# --- what was recorded beside the log ----------------------------------------------------------------


def _whole(recorded: Recorded) -> Iterator[Event]:
    """The log; an event that is missing in it takes the ground from all that follow."""
    number = 0
    for event in recorded.events:
        number += 1
        if event.sequence != number:
            break
        yield event
    else:
        if number and number >= recorded.length:  # it may have grown since
            return
        number += 1
    raise EvidenceGone(f"Event {number} is gone.")


class _Kept(Mapping[str, Artifact]):
    """A run's artifacts; looking for one that is gone, or whose reading is, ends the walk."""

    def __init__(self, known: Mapping[str, Artifact]) -> None:
        self._known = known

    def __getitem__(self, artifact_id: str) -> Artifact:
        if not artifact_id:
            raise KeyError(artifact_id)
        artifact = self._known.get(artifact_id)
        if artifact is None:
            raise EvidenceGone(f"Artifact {artifact_id} is gone.")
        is_patch = artifact.kind == ArtifactKind.PATCH
        if (is_patch and "files" not in artifact.facts) or (
            artifact.kind in _READ and artifact.document is None
        ):
            raise EvidenceGone(f"What was read in {artifact.kind} {artifact_id} is gone.")
        return artifact

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _held(events: list[Event]) -> str:
    """Whether a hold stood then is seen by what it did."""
    released = (event for event in events[1:] if event.type == Ev.LEASE_RELEASED)
    return next((str(event.payload.get("reason", "")) for event in released), "")


def _id_of(events: list[Event], prefix: str) -> str:
    """The request that was opened then is the one that is decided later."""
    if prefix != "apr":
        return ""
    opened = (event.payload["approval_id"] for event in events if event.type == Ev.HUMAN_APPROVAL_REQUIRED)
    return next(opened, "apr_simulated")
