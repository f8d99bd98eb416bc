"""Evaluates the alert rules against scrapes of the product: as much of PromQL as the rules use, and no more.

What it does not know it refuses, so that no rule is thought to hold because it was not understood.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

ROOT: Final = Path(__file__).resolve().parents[1]
RULES: Final = ROOT / "deploy" / "prometheus-alerts.yml"
DASHBOARD: Final = ROOT / "deploy" / "grafana-dashboard.json"

Labels = tuple[tuple[str, str], ...]
Vector = dict[Labels, float]

_TOKEN: Final = re.compile(
    r'\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[a-zA-Z_:][\w:]*)|(?P<text>"[^"]*")'
    r"|(?P<sign>==|!=|>=|<=|=~|!~|[-+*/<>={}()\[\],]))"
)
_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "==": operator.eq, "!=": operator.ne, ">": operator.gt,
    "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip
_MATCHERS: Final[dict[str, Callable[[str, str], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "=~": lambda value, pattern: re.fullmatch(pattern, value) is not None,
    "!~": lambda value, pattern: re.fullmatch(pattern, value) is None,
}
_AGGREGATES: Final[dict[str, Callable[[Iterable[float]], float]]] = {"sum": sum, "max": max, "min": min}


def rules() -> list[dict[str, Any]]:
    """Every alert of the rules file."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def names_in(expression: str) -> set[str]:
    """Series that an expression reads."""
    bare = re.sub(r'"[^"]*"|\[[^]]*\]|\{[^}]*\}', "", expression)
    return set(re.findall(r"agentplatform_\w+|worker_\w+", bare))


@dataclass
class Scrape:
    """What `/metrics` said at a moment, in seconds."""

    at: float
    series: dict[str, Vector]

    @classmethod
    def of(cls, text: str, *, at: float) -> Scrape:
        series: dict[str, Vector] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                series.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
        return cls(at, series)

    def later(self, seconds: float) -> Scrape:
        """The same figures, some time afterwards."""
        return Scrape(self.at + seconds, self.series)


def fires(expression: str, *scrapes: Scrape) -> bool:
    """Whether the expression has a result now, at the last of two scrapes."""
    parser = _Parser(expression, scrapes[0], scrapes[-1])
    found = parser.alternatives()
    assert not parser.rest(), f"not understood: {parser.rest()} of {expression}"
    return bool(found)


class _Parser:
    """Recursive descent; every method takes its words and answers a vector."""

    def __init__(self, text: str, before: Scrape, now: Scrape) -> None:
        self._tokens = [match[0].strip() for match in _TOKEN.finditer(text)]
        assert "".join(self._tokens) == re.sub(r"\s+", "", text), f"not understood: {text}"
        self._before, self._now = before, now

    def rest(self) -> list[str]:
        return self._tokens

    def alternatives(self) -> Vector:
        found = self._both()
        while self._take("or"):
            found = {**self._both(), **found}
        return found

    def _both(self) -> Vector:
        found = self._comparison()
        while self._take("and"):
            other = self._comparison()
            found = {labels: value for labels, value in found.items() if labels in other}
        return found

    def _comparison(self) -> Vector:
        found = self._difference()
        if self._tokens and self._tokens[0] in _COMPARISONS:
            holds = _COMPARISONS[self._tokens.pop(0)]
            limit = float(self._tokens.pop(0))
            found = {labels: value for labels, value in found.items() if holds(value, limit)}
        return found

    def _difference(self) -> Vector:
        found = self._term()
        while self._take("-"):
            other = self._term()
            # Of nothing there is no difference: the figures of the database are away with it.
            found = {labels: first - value for first in found.values() for labels, value in other.items()}
        return found

    def _term(self) -> Vector:
        word = self._tokens.pop(0)
        if word in _AGGREGATES:
            return self._aggregate(_AGGREGATES[word])
        special = {
            "time": self._time,
            "absent": self._absent,
            "rate": self._rate,
            "histogram_quantile": self._quantile,
        }
        return special[word]() if word in special else self._selected(word, self._now, self._conditions())

    def _aggregate(self, combine: Callable[[Iterable[float]], float]) -> Vector:
        kept: list[str] = []
        if self._take("by"):
            kept = self._names()
        self._must("(")
        inner = self._term()
        self._must(")")
        groups: dict[Labels, list[float]] = {}
        for labels, value in inner.items():
            groups.setdefault(tuple(label for label in labels if label[0] in kept), []).append(value)
        return {labels: combine(values) for labels, values in groups.items()}

    def _time(self) -> Vector:
        self._must("(")
        self._must(")")
        return {(): self._now.at}

    def _absent(self) -> Vector:
        self._must("(")
        found = self._term()
        self._must(")")
        return {} if found else {(): 1.0}

    def _rate(self) -> Vector:
        """Growth a second between the two scrapes; the range says only how far apart they may be."""
        self._must("(")
        name, conditions = self._tokens.pop(0), self._conditions()
        for sign in ("[", None, None, "]", ")"):
            word = self._tokens.pop(0)
            assert sign in (None, word)
        before, seconds = self._selected(name, self._before, conditions), self._now.at - self._before.at
        now = self._selected(name, self._now, conditions)
        return {labels: (value - before.get(labels, 0.0)) / seconds for labels, value in now.items()}

    def _quantile(self) -> Vector:
        """The bucket that holds it, told by its upper end."""
        self._must("(")
        share = float(self._tokens.pop(0))
        self._must(",")
        buckets = sorted((float(dict(labels)["le"]), value) for labels, value in self._term().items())
        self._must(")")
        if not buckets or not buckets[-1][1]:
            return {}
        return {(): next((end for end, value in buckets if value >= share * buckets[-1][1]), math.inf)}

    def _conditions(self) -> list[tuple[str, str, str]]:
        found: list[tuple[str, str, str]] = []
        if self._take("{"):
            while not self._take("}"):
                name, sign, value = (self._tokens.pop(0) for _ in range(3))
                found.append((name, sign, value.strip('"')))
                self._take(",")
        return found

    def _selected(self, name: str, scrape: Scrape, conditions: list[tuple[str, str, str]]) -> Vector:
        def fits(labels: Labels) -> bool:
            values = dict(labels)
            return all(_MATCHERS[sign](values.get(label, ""), value) for label, sign, value in conditions)

        return {labels: value for labels, value in scrape.series.get(name, {}).items() if fits(labels)}

    def _names(self) -> list[str]:
        self._must("(")
        found: list[str] = []
        while not self._take(")"):
            found.append(self._tokens.pop(0))
            self._take(",")
        return found

    def _take(self, word: str) -> bool:
        if self._tokens and self._tokens[0] == word:
            self._tokens.pop(0)
            return True
        return False

    def _must(self, word: str) -> None:
        assert self._take(word), f"expected {word} before {self._tokens}"
