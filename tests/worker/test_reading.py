"""Small pure parts: globs, patches, masking, feedback, plans."""

from __future__ import annotations

from pathlib import Path

import pytest
from pathspec import GitIgnoreSpec

from tests.worker.repositories import commit_files, git
from worker.agents import AgentFailure, Job, invoke
from worker.checks.feedback import command_feedback, last_lines
from worker.checks.globs import matches
from worker.checks.patch import read_patch
from worker.client.livelog import LiveLog
from worker.client.protocol import Resume
from worker.phases.plans import make_plan
from worker.sandbox.masking import Masker

PATHS = [
    "a",
    "a.py",
    "b/a.py",
    "b/c/a.py",
    "b/c",
    "docs/x/y.md",
    "x/docs/y",
    "a b",
    "[x]",
    "ab/c",
    "src/test/java/T.java",
    "secret/key",
    "not/secret/key",
]
PATTERNS = [
    ["*"],
    ["**"],
    ["*.py"],
    ["/a.py"],
    ["b/*.py"],
    ["b/**"],
    ["**/a.py"],
    ["b/**/a.py"],
    ["docs/"],
    ["/docs/"],
    ["docs/**"],
    ["secret/**", "!secret/key"],
    ["a?"],
    ["[ab].py"],
    ["[!b].py"],
    ["b/*"],
    ["src/test/**"],
    ["a\\ b"],
    ["\\[x\\]"],
    ["# note"],
    [""],
    ["*.py", "!b/**"],
]


@pytest.mark.parametrize("patterns", PATTERNS, ids=str)
def test_globs_are_those_of_gitignore(patterns: list[str]) -> None:
    spec = GitIgnoreSpec.from_lines(patterns)
    assert [path for path in PATHS if matches(path, patterns)] == list(spec.match_files(PATHS))


def test_a_patch_of_git_is_read_with_its_names_and_lines(repository: Path) -> None:
    commit_files(repository, {"old name": "1\n2\n3\n4\n5\n", "gone": "x\n", "mode": "m\n", "a/x": "-- q\n"})
    (repository / "old name").rename(repository / "new name")
    (repository / "gone").unlink()
    (repository / "mode").chmod(0o755)
    (repository / "a" / "x").write_text("++ q\n")
    (repository / "blob").write_bytes(b"\0\1")
    (repository / "über\ttab").write_text("diff --git a/f b/f\nno newline")
    git(repository, "add", "-A")
    changes = {c.path: c for c in read_patch(git(repository, "diff", "--cached", "--binary", "-M") + "\n")}
    assert changes.keys() == {"new name", "gone", "mode", "a/x", "blob", "über\ttab"}
    assert changes["new name"].paths == ("old name", "new name")
    assert changes["gone"].deleted
    assert changes["mode"].mode_changed
    assert (changes["a/x"].removed, changes["a/x"].added) == (["-- q"], ["++ q"])
    assert changes["blob"].binary
    assert changes["über\ttab"].added == ["diff --git a/f b/f", "no newline"]


@pytest.mark.parametrize(
    "secret",
    [
        "ghp_" + "a" * 36,
        "github_pat_" + "a1" * 20,
        "glpat-" + "x" * 20,
        "AKIA" + "Z" * 16,
        "sk-" + "a" * 40,
        "xoxb-" + "1" * 20,
        "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nabc",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk",
    ],
)
def test_common_secrets_are_masked(secret: str) -> None:
    masked = Masker().mask(f"before {secret}".encode())
    assert masked == b"before [masked]"


def test_known_values_and_credentials_in_addresses_are_masked() -> None:
    masker = Masker(["hunter2hunter", "line one\nline two", "abc"])
    text = "hunter2hunter line two abc https://me:pass@host/x Authorization: Bearer q1w2"
    assert masker.mask_text(text) == (
        "[masked] [masked] abc https://me:[masked]@host/x Authorization: Bearer [masked]"
    )


def test_ordinary_output_is_left_alone() -> None:
    text = "tests/test_a.py::test_b PASSED at 12:30, see https://host:443/path?x=1 sk-short\n"
    assert Masker().mask_text(text) == text


@pytest.mark.parametrize(
    ("output", "tests", "error"),
    [
        (
            "E   AssertionError: 1 != 2\nFAILED tests/test_a.py::test_b - AssertionError: 1",
            ["tests/test_a.py::test_b"],
            "E   AssertionError: 1 != 2",
        ),
        (
            "FAIL: test_b (test_a.Case)\nAssertionError: 1 != 2",
            ["test_b (test_a.Case)"],
            "AssertionError: 1 != 2",
        ),
        ("--- FAIL: TestB (0.0s)\npanic: oh", ["TestB"], "panic: oh"),
        ("  ✕ adds up (3 ms)\nTypeError: x", ["adds up"], "TypeError: x"),
        ("a.py:3:1: F401 unused", [], "a.py:3:1: F401 unused"),
    ],
)
def test_feedback_names_failing_tests_and_first_errors(output: str, tests: list[str], error: str) -> None:
    said = command_feedback(name="t", exit_code=1, timed_out=False, output=output.encode())
    assert said["failing_tests"] == tests
    assert said["first_errors"][0] == error


def test_feedback_is_short_and_clean_whatever_came() -> None:
    noise = b"\x1b[31mred\x1b[0m \x00\xff\n" * 20_000
    said = command_feedback(name="t", exit_code=1, timed_out=False, output=noise)
    assert len(said["tail"]) == 30
    assert said["tail"][0] == "red �"
    assert last_lines(b"a\n\n  b\nc\nd\n") == "b\nc\nd"


def resume(**contract: object) -> Resume:
    document = {
        "task": {"title": "T", "contract": {"instruction": "Do it", **contract}},
        "repository": {"url": "u"},
        "policy": {"risky_paths": [".github/**", "*.lock"], "forbidden_paths": ["infra/**"]},
    }
    return Resume.parse(document)


def test_a_plan_says_its_allowed_paths_and_its_risks() -> None:
    narrow = make_plan(resume(allowed_paths=["src/**"], verifiers=[{"name": "t", "command": "x"}]))
    assert narrow["files"] == ["src/**"]
    assert narrow["risks"] == []
    assert narrow["must_not_change"] == ["infra/**"]
    assert narrow["verifiers"] == ["t"]
    wide = make_plan(resume())
    assert wide["files"] == ["**"]
    assert any(".github/**" in risk for risk in wide["risks"])
    assert any("No verifier" in risk for risk in wide["risks"])


def test_a_plan_says_the_command_cut_where_it_is_long() -> None:
    said = make_plan(resume(agent={"kind": "script", "command": "sed -i\n  s/a/b/ a.py"}))["summary"]
    assert said.startswith("Run the script agent once (sed -i s/a/b/ a.py) to change the checkout: ")
    long = make_plan(resume(agent={"kind": "command", "command": "x" * 900}))["summary"]
    assert f"({'x' * 200}…)" in long


def job(command: object, tmp_path: Path) -> Job:
    return Job(
        command=command,
        instruction="i",
        instructions=(),
        feedback=None,
        hints=None,
        attempt=1,
        repair=0,
        feedback_file=tmp_path / "f",
        report_file=tmp_path / "r",
    )


def test_an_agent_that_cannot_run_says_why(tmp_path: Path) -> None:
    assert invoke("command", job(["prog", "-x"], tmp_path)).argv == ["prog", "-x"]
    with pytest.raises(AgentFailure, match="no agent of kind 'other', only command, script"):
        invoke("other", job("x", tmp_path))
    with pytest.raises(AgentFailure, match="no command"):
        invoke("script", job("  ", tmp_path))


class Recorder:
    """Stands for the lease's connection: keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []

    def append_log(self, operation_id: str, data: bytes, *, offset: int) -> None:
        self.sent.append((offset, data))


def test_a_live_log_sends_whole_masked_lines_at_growing_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr("worker.client.livelog.INTERVAL_SECONDS", 0.0)
    live = LiveLog(recorder, "op", Masker(["hunter2hunter"]))  # type: ignore[arg-type]
    for part in (
        b"one\nhunter2",
        b"hunter\n-----BEGIN PRIVATE KEY-----\nabc\n",
        b"-----END PRIVATE KEY-----\nx",
    ):
        live.feed(part)
    live.finish()
    assert recorder.sent[0] == (0, b"one\n")
    whole = b"".join(data for _, data in recorder.sent)
    assert whole == b"one\n[masked]\n[masked]\nx"
    offset = 0
    for at, data in recorder.sent:
        assert at == offset
        offset += len(data)


KEY = "AKIA" + "Z7Q4M2X9T1B6K3WD"


@pytest.mark.parametrize("cut", range(1, len(KEY)))
def test_a_token_that_is_cut_by_the_border_of_two_chunks_reaches_no_log(
    cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    monkeypatch.setattr("worker.client.livelog.INTERVAL_SECONDS", 0.0)
    live = LiveLog(recorder, "op", Masker())  # type: ignore[arg-type]
    live.feed(f"key={KEY[:cut]}".encode())
    live.feed(f"{KEY[cut:]}\nnext\n".encode())
    live.finish()
    whole = b"".join(data for _, data in recorder.sent).decode()
    assert whole == "key=[masked]\nnext\n"
