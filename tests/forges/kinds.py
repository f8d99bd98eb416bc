"""Every forge that the product knows, by its word for it: whatever is promised is tried against each."""

from __future__ import annotations

from tests.forges.gitea import FakeGitea
from tests.forges.github import FakeGitHub
from tests.forges.gitlab import FakeGitLab
from tests.forges.serving import FakeForge

FORGES: dict[str, type[FakeForge]] = {kind.name: kind for kind in (FakeGitHub, FakeGitLab, FakeGitea)}
