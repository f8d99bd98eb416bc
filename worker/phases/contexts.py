"""What the worker's own loop is told of the repository: made when the context is built, kept as evidence."""

from __future__ import annotations

from worker.loop.context import context_size, describe
from worker.sandbox.folder import Checkout
from worker.sandbox.workspace import Workspace
from worker.session import RunSession


def context_text(session: RunSession, checkout: Checkout) -> str:
    """As it was written down when the context was built; made anew where it was not."""
    stored = [item for item in session.leased.artifacts() if item.get("kind") == "context"]
    if stored:
        return session.leased.download(str(stored[0]["id"])).decode("utf-8", "replace")
    return make_context(session, checkout)


def make_context(session: RunSession, checkout: Checkout) -> str:
    paths = checkout.sandbox.look_at(checkout.path).paths()
    return describe(Workspace(checkout.path), paths, most_characters=context_size(session.resume))
