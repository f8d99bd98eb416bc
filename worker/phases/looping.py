"""EXECUTING for the agent kind `model`: the worker's own loop, set up from the contract and the events."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace

from pydantic_ai.messages import ModelRequest
from pydantic_ai.tools import ToolDefinition

from worker.agents import Job
from worker.agents.command import prompt
from worker.client.protocol import Json, Resume
from worker.loop.bounds import Bounds
from worker.loop.command_tools import RUN_TOOL, contract_tool
from worker.loop.context import opening
from worker.loop.conversation import Conversation, rebuild
from worker.loop.file_tools import FILE_TOOLS
from worker.loop.running import Loop
from worker.loop.tools import ASK, FINISH, Approvals, Tool, Workbench
from worker.models import ModelUnknown, open_model
from worker.models.asking import Asker
from worker.phases.calling import STEP_MARGIN, STEP_SECONDS
from worker.phases.contexts import context_text
from worker.phases.failures import RunFailure
from worker.phases.preparing import working_directory
from worker.sandbox.folder import Checkout
from worker.sandbox.process import Command, Result, run_command
from worker.session import RunSession

ATTEMPT_SECONDS = 3600.0
_TALK = (
    ToolDefinition(
        name=ASK,
        description="Ask the people of this task. The work rests until they answer: ask what you must.",
        parameters_json_schema={
            "type": "object",
            "properties": {
                "question": {"type": "string"},
                "choices": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["question"],
        },
    ),
    ToolDefinition(
        name=FINISH,
        description="End the work and say what was done.",
        parameters_json_schema={
            "type": "object",
            "properties": {"summary": {"type": "string"}},
            "required": ["summary"],
        },
    ),
)


def work_with_model(session: RunSession, checkout: Checkout) -> str:
    """The model's last word. Raises what `Loop.run` raises."""
    with open_asker(session) as asker:
        tools = tools_of(session.resume)
        loop = Loop(
            session=session,
            bench=_workbench(session, checkout),
            asker=asker,
            conversation=_conversation(session, checkout),
            bounds=_bounds(session.resume),
            tools=tools,
            definitions=[*(_definition(tool) for tool in tools.values()), *_TALK],
            approvals=Approvals.parse(session.resume.contract.agent.get("requires_approval") or ()),
            pending={str(step["operation_id"]): step for step in session.resume.pending},
        )
        if session.resume.lost:
            loop.again(session.resume.lost)
            loop = replace(loop, conversation=_conversation(session, checkout))
        return loop.run()


def open_asker(session: RunSession) -> Asker:
    """The contract's model, else this worker's. Raises RunFailure."""
    agent = session.resume.contract.agent
    name = str(agent.get("model") or session.config.model or "")
    try:
        opened = open_model(name, variables=os.environ, script=agent.get("script"))
    except ModelUnknown as error:
        raise RunFailure("TOOL_FAILED", "model_unknown", str(error), retryable=False) from error
    return Asker(opened, must_stop=session.must_stop_now, patience=session.config.model_patience)


def tools_of(resume: Resume) -> Mapping[str, Tool]:
    """Every tool of this contract by name; its own cannot take a name that is taken."""
    own = [contract_tool(item) for item in resume.contract.agent.get("tools") or ()]
    return {tool.name: tool for tool in (*own, *FILE_TOOLS, RUN_TOOL)}


def request_text(session: RunSession) -> str:
    """What is asked for, in the words that a command agent gets as well."""
    resume = session.resume
    return prompt(
        Job(
            command=None,
            instruction=resume.instruction_in_force(),
            instructions=resume.instructions,
            feedback=_opening_feedback(resume),
            hints=resume.hints,
            attempt=resume.attempt,
            repair=session.repair_round,
        )
    )


def _conversation(session: RunSession, checkout: Checkout) -> Conversation:
    resume = session.resume
    first: ModelRequest = opening(
        resume, request=request_text(session), context=context_text(session, checkout)
    )
    return rebuild(
        session.leased.events(),
        opening=first,
        prefix=f"{session.run_id}.a{resume.attempt}",
        attempt=resume.attempt,
        instructions={item.number: item.text for item in resume.instructions},
        fetch=session.leased.download,
    )


def _opening_feedback(resume: Resume) -> object:
    """What was said before this attempt; what is said within it stands in its own events."""
    feedback = resume.feedback
    source = feedback.get("source") if isinstance(feedback, dict) else ""
    within = source == "answer" or (source in ("verification", "judge") and resume.repairs)
    return None if within else feedback


def _bounds(resume: Resume) -> Bounds:
    return Bounds.of(resume, now=time.monotonic(), attempt_seconds=resume.timeout("attempt", ATTEMPT_SECONDS))


def _workbench(session: RunSession, checkout: Checkout) -> Workbench:
    config = session.config

    def execute(command: Command) -> Result:
        result = run_command(command, must_stop=session.must_stop_now)
        return replace(result, output=session.masker.mask(result.output))

    return Workbench(
        checkout=checkout,
        directory=working_directory(session, checkout),
        execute=execute,
        environment=checkout.environment(config.variables(config.agent_env)),
        longest_seconds=session.resume.timeout("step", STEP_SECONDS) * STEP_MARGIN,
        kill_after_seconds=config.kill_after_seconds,
    )


def _definition(tool: Tool) -> ToolDefinition:
    schema: Json = tool.parameters
    return ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=schema)
