"""One worker process: several runs side by side, figures, a drain, and few packages."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections.abc import Callable
from decimal import Decimal
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

import worker
from tests.worker import product
from tests.worker.product import Product, contract
from worker.checks.judge import Evidence
from worker.checks.model_judge import MOST_CHARACTERS, judge_request, merged_report
from worker.client.protocol import Contract, Instruction
from worker.config import WorkerConfig
from worker.loop.bounds import Bounds, OutOfBounds
from worker.loop.context import repository_map
from worker.loop.tools import Approvals, capped
from worker.metrics import Figures, serve_figures
from worker.serving import serve

MOST_PACKAGES = 25


def needed(names: list[str]) -> set[str]:
    """The packages that these lead to on this machine, by what they themselves declare."""
    found: set[str] = set()
    ahead = [Requirement(name) for name in names]
    while ahead:
        wanted = ahead.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name not in found:
            found.add(name)
            declared = map(Requirement, distribution(name).requires or ())
            ahead += [item for item in declared if item.marker is None or item.marker.evaluate({"extra": ""})]
    return found


def test_a_worker_alone_needs_few_packages_and_no_django() -> None:
    lines = (Path(worker.__file__).parent / "requirements.txt").read_text().splitlines()
    packages = needed([line for line in lines if line and not line.startswith("#")])
    assert len(packages) <= MOST_PACKAGES, sorted(packages)
    assert "pydantic-ai-slim" in packages
    assert not {name for name in packages if "django" in name}


@pytest.mark.django_db(transaction=True)
def test_several_runs_are_held_side_by_side(
    make_product: Callable[..., Product], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    made = make_product()
    met = tmp_path / "met"
    # Each waits for the other: one after the other they would never get on.
    command = (
        f"touch {met}.$$; n=0; while [ $(ls {met}.* | wc -l) -lt 2 ]; do sleep 0.1; n=$((n+1));"
        " [ $n -lt 300 ] || exit 1; done; sed -i s/two/three/ notes.txt"
    )
    runs = [made.submit(**{**contract(), "agent": {"kind": "script", "command": command}}) for _ in range(2)]
    config = WorkerConfig(work_dir=tmp_path / "sandboxes", wait_seconds=0, kill_after_seconds=0.3)
    serve(config, url=made.url, token=made.token, once=True, concurrency=2)
    assert {product.status(run) for run in runs} == {"WAITING_FOR_APPROVAL"}


def test_figures_are_served_and_unknown_cost_is_counted_apart() -> None:
    figures = Figures()
    figures.claimed()
    figures.posted("tool_requested")
    figures.asked(input_tokens=10, output_tokens=2, cost_usd=Decimal("0.25"))
    figures.asked(input_tokens=None, output_tokens=None, cost_usd=None)
    figures.left("SUCCEEDED")
    text = figures.text()
    for line in (
        "worker_runs_held 0",
        'worker_runs_left_total{status="SUCCEEDED"} 1',
        "worker_model_cost_usd_total 0.25",
        "worker_model_cost_unknown_total 1",
        f'worker_info{{version="{worker.__version__}"}} 1',
    ):
        assert line in text.splitlines()
    server = serve_figures(0)
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=10) as page:
        assert b"worker_claims_total" in page.read()
    server.shutdown()
    server.server_close()


def evidence(patch: str = "+x") -> Evidence:
    asked = Contract.parse({"title": "T", "instruction": "Do it"})
    return Evidence(asked, {}, patch, "0" * 64, {"commands": []}, (Instruction(1, "Do it"),))


def verdict(**said: Any) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart("submit_verdict", said)])


RULES = {"subject_sha256": "0" * 64, "verdict": "pass", "confidence": 0.9, "reasons": ["rules"]}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (verdict(verdict="pass", confidence=0.99, reasons=["fine"]), ("pass", 0.9)),
        (verdict(verdict="pass", confidence=0.3, reasons=[]), ("pass", 0.3)),
        (verdict(verdict="fix", confidence=1, reasons=["wrong"], feedback="Mend it"), ("fix", 0.9)),
        (verdict(verdict="maybe", confidence=1), ("pass", 0.0)),
        (verdict(verdict="pass", confidence="high"), ("pass", 0.0)),
        (ModelResponse(parts=[TextPart(content="Looks good to me")]), ("pass", 0.0)),
    ],
)
def test_a_judging_model_is_never_milder_than_the_rules(
    response: ModelResponse, expected: tuple[str, float]
) -> None:
    report = merged_report(RULES, response, evidence=evidence())
    assert (report["verdict"], report["confidence"]) == expected
    assert ("feedback" in report) is (expected[0] == "fix")


def test_nobody_is_sure_of_a_difference_that_was_cut() -> None:
    files = [f"diff --git a/{name} b/{name}\n+{'x' * (MOST_CHARACTERS // 2)}\n" for name in "abc"]
    long = evidence("".join(files))
    assert "longer than what is shown" in str(judge_request(long))
    sure = verdict(verdict="pass", confidence=1, reasons=[])
    report = merged_report(RULES, sure, evidence=long)
    assert report["confidence"] == 0.5
    assert (report["files_seen"], report["files_total"]) == (1, 3)
    whole = merged_report(RULES, sure, evidence=evidence(files[0]))
    assert (whole["files_seen"], whole["files_total"]) == (1, 1)


@pytest.mark.parametrize(
    ("limits", "used", "limit"),
    [
        ({"max_steps": 3}, {"steps": 3}, "max_steps"),
        ({"max_tool_calls": 3}, {"tool_calls": 3}, "max_tool_calls"),
        ({"max_cost_usd": "1.00"}, {"cost_usd": Decimal("1.01")}, "max_cost_usd"),
        ({}, {"deadline": 5.0}, "attempt_time"),
    ],
)
def test_a_limit_that_is_reached_costs_no_further_answer(
    limits: dict[str, Any], used: dict[str, Any], limit: str
) -> None:
    with pytest.raises(OutOfBounds) as bound:
        Bounds(limits, **used).before_model_call(now=10.0)
    assert bound.value.limit == limit


def test_approvals_go_by_tool_and_by_the_form_of_an_argument() -> None:
    rules = Approvals.parse(["write(*.lock)", "run(*git push*)", "deploy*"])
    assert rules.needed("write", {"path": "a.lock", "content": ""})
    assert rules.needed("run", {"command": "cd x && git push origin"})
    assert rules.needed("deploy_all", {})
    assert not rules.needed("write", {"path": "a.txt"})
    assert not rules.needed("run", {"command": "git status"})


def test_what_is_left_out_is_said() -> None:
    assert "bytes left out" in capped(b"x" * 100_000)
    assert len(capped(b"x" * 100_000)) < 25_000
    paths = [f"src/package{number % 7}/module{number}.py" for number in range(5_000)]
    shown = repository_map(paths, most_characters=2_000)
    assert len(shown) <= 2_000
    assert "5000 files" in shown
    assert "src/package3/… (714 files)" in shown


def test_the_drain_reaches_every_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: list[Callable[[int, Any], None]] = []
    monkeypatch.setattr("signal.signal", lambda number, handler: handlers.append(handler))
    config = WorkerConfig(work_dir=tmp_path, wait_seconds=0)
    nowhere = {"url": "http://127.0.0.1:9", "token": "t", "once": False, "concurrency": 3}
    thread = threading.Thread(target=serve, args=(config,), kwargs=nowhere)
    thread.start()
    while not handlers:
        thread.join(0.01)
    handlers[0](15, None)
    thread.join(20)
    assert not thread.is_alive()
