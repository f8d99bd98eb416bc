"""Lists over millions of rows: no count of all, no query for the choices of a filter."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest

#: Pages end here: whoever looks for something older searches or filters. A deep OFFSET reads all before it.
MOST: Final = 5_000
#: Rows of a log that a filter by a word looks at.
NEWEST: Final = 200_000


class FirstRows(Paginator):
    """Counts as far as it goes, and not further."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, or ``MOST``."""
        rows: Any = self.object_list
        return int(rows.order_by()[:MOST].count())


class WordFilter(admin.SimpleListFilter):
    """A filter whose choices are words that the code knows."""

    field: ClassVar[str]
    words: ClassVar[tuple[tuple[str, str], ...]]
    newest: ClassVar[int] = 0

    def lookups(self, request: HttpRequest, model_admin: Any) -> tuple[tuple[str, str], ...]:
        """The words."""
        return self.words

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet | None:
        """Rows that hold the chosen one; of a log, among the newest."""
        if not self.value():
            return None
        if self.newest:
            beyond = queryset.model._default_manager.order_by("-pk").values_list("pk", flat=True)  # noqa: SLF001  Django's documented name
            if last := beyond[self.newest : self.newest + 1].first():
                queryset = queryset.filter(pk__gt=last)
        return queryset.filter(**{self.field: self.value()})


def by_word(field: str, words: Iterable[Any], *, newest: int = 0) -> type[WordFilter]:
    """A filter over ``field`` by ``words``: texts, or words of the vocabulary with a label.

    ``newest``: of a log that grows for ever no index knows the word, and only so many rows are looked at.
    """
    pairs = tuple((str(getattr(word, "value", word)), str(getattr(word, "label", word))) for word in words)
    title = field.replace("_", " ") + (f" (of the newest {newest:,})" if newest else "")
    named = {"field": field, "words": pairs, "title": title, "parameter_name": field, "newest": newest}
    return type(f"By{field.title().replace('_', '')}", (WordFilter,), named)
