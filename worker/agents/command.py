"""`command`: any program that takes a prompt on standard input and works in the checkout.

Its exit status and the difference it leaves are the result. The prompt holds the instruction, the
numbered later instructions, and what the last check or reviewer said.
"""

from __future__ import annotations

from worker.agents.job import Invocation, Job, as_text, command_argv, common_environment
from worker.agents.presets import invoke_preset


def invoke_command(job: Job) -> Invocation:
    if job.preset:
        return invoke_preset(job, prompt(job))
    return Invocation(
        argv=command_argv(job.command),
        environment=common_environment(job),
        stdin=prompt(job).encode("utf-8", "replace"),
    )


def prompt(job: Job) -> str:
    """The whole request as text."""
    first, later = job.instructions[:1], job.instructions[1:]
    parts = [first[0].text if first else job.instruction]
    if later:
        numbered = "\n".join(f"{item.number}. {item.text}" for item in later)
        parts.append(f"Later instructions, which hold as well:\n{numbered}")
    if job.hints:
        parts.append(f"Hints:\n{as_text(job.hints)}")
    if job.feedback:
        parts.append(f"What was said about the work so far:\n{as_text(job.feedback)}")
    return "\n\n".join(parts) + "\n"
