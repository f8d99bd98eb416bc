"""What any agent can honestly promise before it runs. Pure."""

from __future__ import annotations

from worker.checks.globs import matches
from worker.client.protocol import Contract, Json, Resume

EVERYTHING = "**"
MOST_OF_A_COMMAND = 200


def make_plan(resume: Resume) -> Json:
    """`{files, verifiers, risks, must_not_change, stop_condition, summary}`. Pure.

    A script or command agent cannot know its files beforehand, so the plan names the allowed paths.
    """
    contract = resume.contract
    files = list(contract.allowed_paths) or [EVERYTHING]
    forbidden = [*contract.forbidden_paths, *(resume.policy.get("forbidden_paths") or [])]
    names = [verifier.name for verifier in contract.verifiers]
    return {
        "files": files,
        "verifiers": names,
        "risks": _risks(resume, files),
        "must_not_change": list(dict.fromkeys(forbidden)),
        "stop_condition": _stop_condition(contract, names),
        "summary": _summary(resume),
    }


def _risks(resume: Resume, files: list[str]) -> list[str]:
    contract = resume.contract
    risks = []
    if EVERYTHING in files:
        risks.append("The contract allows every path, so the plan cannot name its files.")
    risky = [path for path in resume.policy.get("risky_paths") or [] if _may_touch(files, path)]
    if risky:
        risks.append(f"It may touch paths that need a closer look: {', '.join(risky[:10])}.")
    if not contract.verifiers and not contract.wants_analysis:
        risks.append("No verifier: nothing but the judge and a person checks the result.")
    if contract.setup:
        risks.append("Setup commands run with network access.")
    if resume.hints:
        risks.append("An earlier run of this task failed.")
    return risks


def _may_touch(files: list[str], risky: str) -> bool:
    """Whether some path may fall under both; exact where one of the two is a plain path."""
    sample = risky.replace("**", "x").replace("*", "x").strip("/")
    return EVERYTHING in files or risky in files or matches(sample, files)


def _stop_condition(contract: Contract, names: list[str]) -> str:
    if contract.wants_analysis:
        return "The agent ends and leaves a report."
    if names:
        return f"The agent ends with status 0 and these checks pass: {', '.join(names)}."
    return "The agent ends with status 0 and leaves a change."


def _summary(resume: Resume) -> str:
    contract = resume.contract
    kind = contract.agent.get("kind") or "script"
    what = "write a report" if contract.wants_analysis else "change the checkout"
    command = _one_line(str(contract.agent.get("command") or ""))
    run = f"Run the {kind} agent once" + (f" ({command})" if command else "")
    return f"{run} to {what}: {resume.instruction_in_force()[:500]}"


def _one_line(command: str) -> str:
    """The command on one line, cut where it is long: the contract holds the whole."""
    line = " ".join(command.split())
    return line if len(line) <= MOST_OF_A_COMMAND else f"{line[:MOST_OF_A_COMMAND]}…"
