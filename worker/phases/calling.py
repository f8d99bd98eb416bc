"""A `script` or `command` agent: one call of one program in the checkout.

The call is one step: announced before it runs, completed after, under one operation id. A worker
that takes over finds an announced call pending and repeats it under that same id.
"""

from __future__ import annotations

from pathlib import Path

from worker.agents import AgentFailure, Invocation, Job, invoke
from worker.agents.job import as_text
from worker.agents.presets import Told, read_stream
from worker.checks.feedback import last_lines
from worker.client.livelog import LiveLog
from worker.client.protocol import Json
from worker.phases.failures import RunFailure
from worker.phases.handing_in import MOST_SUMMARY, hand_in_patch, hand_in_report
from worker.phases.preparing import working_directory
from worker.sandbox.folder import Checkout
from worker.sandbox.process import Result, run_command
from worker.session import RunSession

STEP_SECONDS = 900.0
# The control plane times a step out by itself; the worker wants to be first, and say why.
STEP_MARGIN = 0.95
# Of one call: with its repairs, they stay below what an attempt may have.
MOST_STEPS = 25


def agent_has_finished(session: RunSession) -> bool:
    """Whether the worker before this one ran the agent of this round and saved what it left."""
    resume = session.resume
    if resume.checkpoint is None or resume.contract.wants_analysis:
        return False
    lost = {step["operation_id"] for step in resume.lost}
    return any(
        str(step["operation_id"]).startswith(_operation_prefix(session))
        and step.get("state") == "SUCCEEDED"
        and step["operation_id"] not in lost
        for step in session.leased.steps()
    )


def call_agent(session: RunSession, checkout: Checkout) -> None:
    kind = str(session.resume.contract.agent.get("kind") or "script")
    pending = next((s for s in session.resume.pending if s.get("tool") == kind), None)
    operation_id, arguments = _announce(session, kind, pending)
    exchange = checkout.new_exchange()
    job = _job(session, arguments, exchange)
    try:
        invocation = invoke(kind, job)
    except AgentFailure as error:
        session.post("tool_completed", operation_id=operation_id, outcome="failed")
        raise RunFailure("TOOL_FAILED", "agent_invalid", str(error), retryable=False) from error
    result, output = _run(session, checkout, invocation, operation_id)
    if result.stopped and not _may_report(session):
        session.boundary()
    log = session.upload("output", output)
    told = read_stream(job.preset, output) if job.preset else None
    session.post_all(_reports(_completion(operation_id, result, output, log.id), told))
    session.boundary_after_report()
    words = told.words.encode() if told and told.words else output
    if not result.ok or (told and told.failed):
        _fail_attempt(session, result, words, log.id)
    elif session.resume.contract.wants_analysis:
        hand_in_report(session, job.report_file, words)
    else:
        hand_in_patch(session, checkout, words, summary=told.words[:MOST_SUMMARY] if told else "")


def _reports(completion: Json, told: Told | None) -> list[tuple[str, Json]]:
    """The call's outcome, between the steps that its stream told of and what all of it used."""
    if told is None:
        return [("tool_completed", completion)]
    if told.words or told.failed:
        completion = {**completion, "summary": (told.failed or told.words)[:MOST_SUMMARY]}
    if told.failed and completion["outcome"] == "succeeded":
        completion["outcome"] = "failed"
    shown, more = told.steps[:MOST_STEPS], len(told.steps) - MOST_STEPS
    steps: list[tuple[str, Json]] = [
        ("model_decision", {"decision": "tool", "summary": step, **_model_of(told)}) for step in shown
    ]
    words = f"{told.words[:MOST_SUMMARY]}" + (f"\n[{more} more steps]" if more > 0 else "")
    last: Json = {"decision": "final", "summary": words, **_model_of(told)}
    for name, value in (("input_tokens", told.input_tokens), ("output_tokens", told.output_tokens)):
        if value is not None:
            last[name] = value
    if told.cost_usd is not None:
        last["cost_usd"] = format(told.cost_usd, "f")
    # The money comes last: the report that reaches a limit may end the lease.
    return [*steps, ("tool_completed", completion), ("model_decision", last)]


def _model_of(told: Told) -> Json:
    return {"model": told.model} if told.model else {}


def _announce(session: RunSession, kind: str, pending: Json | None) -> tuple[str, Json]:
    """The operation's id and arguments: those of a pending call, or of a new one."""
    if pending is not None:
        return str(pending["operation_id"]), dict(pending.get("arguments") or {})
    operation_id = f"{_operation_prefix(session)}.f{session.fence}"
    arguments: Json = {
        "command": session.resume.contract.agent.get("command"),
        "instruction": session.resume.instruction,
        "repair": session.repair_round,
    }
    session.post(
        "tool_requested",
        operation_id=operation_id,
        tool=kind,
        arguments=arguments,
        label=_label(session),
        effect="workspace",
    )
    # A gate may have opened over this call: then the lease is over, and this raises.
    session.boundary()
    return operation_id, arguments


def _operation_prefix(session: RunSession) -> str:
    return f"{session.run_id}.a{session.resume.attempt}.r{session.repair_round}"


def _label(session: RunSession) -> str:
    if session.resume.contract.wants_analysis:
        return "Analysing the repository"
    if session.repair_round:
        return f"Editing files, repair {session.repair_round}"
    return "Editing files"


def _job(session: RunSession, arguments: Json, exchange: Path) -> Job:
    resume = session.resume
    feedback_file = exchange / "feedback.json"
    feedback_file.write_text(as_text(resume.feedback), encoding="utf-8", errors="replace")
    instruction, instruction_file = resume.instruction_in_force(), exchange / "instruction.txt"
    instruction_file.write_text(instruction, encoding="utf-8", errors="replace")
    agent = resume.contract.agent
    return Job(
        command=arguments.get("command") or agent.get("command"),
        preset=str(agent.get("preset") or ""),
        model=str(agent.get("model") or (session.config.model if agent.get("preset") else "")),
        options=tuple(agent.get("options") or ()),
        instruction=instruction,
        instructions=resume.instructions,
        feedback=resume.feedback,
        hints=resume.hints,
        attempt=resume.attempt,
        repair=session.repair_round,
        instruction_file=instruction_file,
        feedback_file=feedback_file,
        report_file=exchange / "report.md",
    )


def _run(
    session: RunSession, checkout: Checkout, invocation: Invocation, operation_id: str
) -> tuple[Result, bytes]:
    config = session.config
    live = LiveLog(session.leased, operation_id, session.masker)
    command = checkout.command(
        invocation.argv,
        cwd=working_directory(session, checkout),
        env=checkout.environment({**config.variables(config.agent_env), **invocation.environment}),
        network=True,
        stdin=invocation.stdin,
        timeout_seconds=_agent_seconds(session),
        kill_after_seconds=config.kill_after_seconds,
    )
    result = run_command(command, must_stop=session.must_stop_now, on_output=live.feed)
    if session.live:
        live.finish()
    return result, session.masker.mask(result.output)


def _agent_seconds(session: RunSession) -> float:
    step = session.resume.timeout("step", STEP_SECONDS) * STEP_MARGIN
    asked = session.resume.contract.agent.get("timeout_seconds")
    return min(step, float(asked)) if isinstance(asked, int | float) and asked > 0 else step


def _may_report(session: RunSession) -> bool:
    """A call that a person's cancel ended is reported; one that this worker's end broke off is
    left pending, for the next worker to repeat."""
    return session.live and session.cancelling


def _completion(operation_id: str, result: Result, output: bytes, log_id: str) -> Json:
    outcome = "timed_out" if result.timed_out else "succeeded" if result.ok else "failed"
    return {
        "operation_id": operation_id,
        "outcome": outcome,
        "exit_code": result.exit_code,
        "summary": "stopped: cancelled" if result.stopped else last_lines(output),
        "duration_ms": result.duration_ms,
        "output_artifact_id": log_id,
    }


def _fail_attempt(session: RunSession, result: Result, output: bytes, log_id: str) -> None:
    failure = RunFailure(
        "TOOL_FAILED",
        "agent_timed_out" if result.timed_out else "agent_failed",
        f"the agent ended with {result.exit_code}\n{last_lines(output)}",
        retryable=True,
        evidence=log_id,
    )
    session.post("attempt_finished", outcome="failed", failure=failure.document())
