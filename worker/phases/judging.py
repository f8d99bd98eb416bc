"""JUDGING: the report on the patch or the analysis, by rules, and by a model where one is set."""

from __future__ import annotations

import json

from worker.checks.judge import Evidence, judge_analysis, judge_patch
from worker.client.protocol import Artifact, Json
from worker.phases.failures import RunFailure
from worker.phases.preparing import open_sandbox
from worker.session import RunSession


def judge(session: RunSession) -> None:
    session.refresh()
    session.boundary()
    analysis = session.resume.contract.wants_analysis
    report = _judge_analysis(session) if analysis else _judge_patch(session)
    artifact = session.upload_json("judge_report", report)
    event = "judge_passed" if report["verdict"] == "pass" else "judge_requires_fix"
    session.post(event, judge_report_id=artifact.id)


def _judge_patch(session: RunSession) -> Json:
    resume = session.resume
    patch = _needed(resume.patch, "patch")
    evidence = Evidence(
        contract=resume.contract,
        plan=_document(session, resume.plan, "plan"),
        patch=session.leased.download(patch.id).decode("utf-8", "replace"),
        patch_sha256=patch.sha256,
        report=_document(session, resume.verification_report, "verification report"),
        instructions=resume.instructions,
        generated_paths=resume.policy.get("generated_paths") or (),
    )
    report = judge_patch(evidence)
    # What the rules send back needs no model to be sent back.
    if report["verdict"] == "pass" and session.config.judge_model:
        from worker.phases.model_judging import judge_with_model

        return judge_with_model(session, evidence, report)
    return report


def _judge_analysis(session: RunSession) -> Json:
    subject = _needed(_report_handed_in(session), "analysis report")
    sandbox = open_sandbox(session)
    return judge_analysis(
        report=session.leased.download(subject.id).decode("utf-8", "replace"),
        subject_sha256=subject.sha256,
        contract=session.resume.contract,
        known_paths=sandbox.look_at(sandbox.new_folder("look")).paths(),
    )


def _report_handed_in(session: RunSession) -> Artifact | None:
    """The report counts as the run's checkpoint; where none is named, the newest one is meant."""
    stored = [a for a in session.leased.artifacts() if a.get("kind") == "analysis_report"]
    checkpoint = session.resume.checkpoint
    if checkpoint and any(found["id"] == checkpoint.id for found in stored):
        return checkpoint
    newest = max(stored, key=lambda found: str(found.get("created_at") or ""), default=None)
    return Artifact.parse(newest) if newest else None


def _document(session: RunSession, artifact: Artifact | None, what: str) -> Json:
    document = json.loads(session.leased.download(_needed(artifact, what).id))
    return dict(document)


def _needed(artifact: Artifact | None, what: str) -> Artifact:
    if artifact is None:
        raise RunFailure("INFRASTRUCTURE", "evidence_missing", f"there is no {what} to judge", retryable=True)
    return artifact
