"""The review page as its template takes it: what was asked, what was done, the evidence, what one may do.

What was done is computed from the patch's stored reading, never from what the agent says of itself.
"""

from approvals.pages.context import Asked, review_context
from approvals.pages.difference import unread_of
from approvals.pages.review import Review, read_review

__all__ = ["Asked", "Review", "read_review", "review_context", "unread_of"]
