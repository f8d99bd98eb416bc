"""`script`: the contract's command edits the checkout. A codemod, a formatter, `sed`.

The command runs by /bin/sh in the checkout. Its environment tells it what is asked:
AGENT_INSTRUCTION; AGENT_FEEDBACK_FILE, a file outside the checkout with what the last check or
reviewer said, empty the first time; AGENT_REPORT_FILE, where an analysis may write its report;
AGENT_ATTEMPT and AGENT_REPAIR, numbers from 1 and from 0.
"""

from __future__ import annotations

from worker.agents.job import Invocation, Job, command_argv, common_environment


def invoke_script(job: Job) -> Invocation:
    return Invocation(argv=command_argv(job.command), environment=common_environment(job))
