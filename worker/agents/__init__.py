"""Agents: how a contract's agent becomes one command in the checkout.

An agent is a pure function from a job to an invocation, so that a new kind is one small file.
"""

from worker.agents.command import invoke_command
from worker.agents.job import AgentFailure, Invocation, Job
from worker.agents.script import invoke_script

AGENTS = {"script": invoke_script, "command": invoke_command}


def invoke(kind: str, job: Job) -> Invocation:
    """Raises AgentFailure for a kind that this worker does not know."""
    try:
        agent = AGENTS[kind]
    except KeyError:
        known = ", ".join(sorted(AGENTS))
        raise AgentFailure(f"this worker has no agent of kind {kind!r}, only {known}") from None
    return agent(job)


__all__ = ["AGENTS", "AgentFailure", "Invocation", "Job", "invoke"]
