"""All reads. Keyword-only; each says how many queries it takes, whatever the number of rows."""

from runs.selectors.display import (
    allowed_to,
    api_href,
    display_for_run,
    display_for_task,
    shown_run,
    shown_task,
)
from runs.selectors.policies import effective_policies
from runs.selectors.surroundings import Surroundings, read_surroundings

__all__ = [
    "Surroundings",
    "allowed_to",
    "api_href",
    "display_for_run",
    "display_for_task",
    "effective_policies",
    "read_surroundings",
    "shown_run",
    "shown_task",
]
