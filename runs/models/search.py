"""Text search by the database itself: words of titles, instructions, failures and branches.

Names are what people look for here, so words are taken as they are written, without a language's stems,
and ``clock/utils.py`` is three of them. Everything in the expressions is literal: an index is used only
where a query spells its expression the same way.
"""

from __future__ import annotations

import re
from typing import Any, Final

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchQuery, SearchVectorExact, SearchVectorField
from django.db.models import BooleanField, Case, F, Func, Q, Value, When

#: What holds the parts of a name together; the database's parser would take the whole for one word.
_JOINTS: Final = "./-_@:?=&~<>+"
_WORD: Final = re.compile(r"[^\W_]+")
MOST_WORDS: Final = 12


class Words(Func):
    """The words of one text column."""

    template = f"to_tsvector('simple', translate(%(expressions)s, '{_JOINTS}', '{' ' * len(_JOINTS)}'))"
    output_field = SearchVectorField()


class WordsOfRequest(Func):
    """The words of a task's title and of its first instruction."""

    template = (
        f"to_tsvector('simple', translate(title || ' ' || coalesce(%(expressions)s ->> 'instruction', ''), "
        f"'{_JOINTS}', '{' ' * len(_JOINTS)}'))"
    )
    output_field = SearchVectorField()


class WordsOfTask(Func):
    """The same of a task that others are joined to: title and contract."""

    arg_joiner = " || ' ' || coalesce("
    template = (
        "to_tsvector('simple', translate(%(expressions)s ->> 'instruction', ''), "
        f"'{_JOINTS}', '{' ' * len(_JOINTS)}'))"
    )
    output_field = SearchVectorField()


def request_words() -> WordsOfRequest:
    """Of a task."""
    return WordsOfRequest(F("contract"))


def say(words: Func, query: SearchQuery) -> Q:
    """Rows whose ``words`` answer ``query``, asked row by row.

    As a CASE, of which the database expects every second row to be true: so it walks to the end of a page. Of
    the plain condition it expects a few in all, and asks every row to sort those.
    """
    said = When(SearchVectorExact(words, query), then=Value(True))  # noqa: FBT003
    return Q(Case(said, default=Value(False), output_field=BooleanField()))  # noqa: FBT003


def words_index(name: str, expression: Func, **options: Any) -> GinIndex:
    """The index that finds rows by ``expression``."""
    return GinIndex(expression, name=name, **options)


def search_query(text: str) -> SearchQuery | None:
    """Every word of ``text``, each perhaps only begun; None where there is none."""
    words = _WORD.findall(text.lower())[:MOST_WORDS]
    if not words:
        return None
    return SearchQuery(" & ".join(f"{word}:*" for word in words), config="simple", search_type="raw")
