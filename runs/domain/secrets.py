"""Secrets in a change: found in added lines, counted in removed ones, never repeated.

Nothing inside the change can switch a rule off: no comment, file name or configuration is
read. What is deliberately *not* a finding, because it is no key to anything:
- the key pair that AWS prints in its own documentation, by exact value;
- provider keys of test mode (`sk_test_…`);
- digests, UUIDs and lock file integrity values;
- placeholders (`${TOKEN}`, `<token>`, `changeme`) and look-ups (`os.environ[...]`);
- database addresses of this machine, and those whose password is their user name.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from runs.domain.patch.model import Hunk, Line, PatchFile
from runs.domain.secret_rules import ANY_HINT, HINTS, RULES, Rule

REDACTED = "[redacted]"

_SCANNER_FILES = re.compile(
    r"\.?gitleaks(ignore|\.toml)|\.gitleaksignore|\.secrets\.baseline|\.?trufflehog[^/]*"
    r"|\.secretlint(rc[^/]*|ignore)|\.(ggshield|gitguardian)[^/]*|\.talismanrc|\.whispers\.ya?ml"
    r"|\.pre-commit-config\.yaml",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Where a secret stands, and of which kind; never what it is.

    `line` is the new file's. `fingerprint` tells two secrets apart and lets a waiver name
    one; with a key it cannot be used to test guesses. `preview` is at most the first four
    characters, and only of kinds whose first characters say nothing but the kind.
    """

    path: str
    line: int
    rule: str
    fingerprint: str
    preview: str


class SecretScan(NamedTuple):
    """`removed` counts secrets that the change takes away: they are still to be rotated.

    `kept` counts those in lines shown only as context.
    """

    added: list[Finding]
    removed: int
    kept: int


class _Hit(NamedTuple):
    rule: Rule
    value: str
    start: int
    end: int


def scan(files: Iterable[PatchFile], *, key: bytes = b"") -> SecretScan:
    """Scan a change. `key` keys the fingerprints; without one they are plain digests."""
    findings: list[Finding] = []
    gone: set[str] = set()
    kept: set[str] = set()
    for file in files:
        for hunk in file.hunks:
            for line in hunk.lines:
                for hit in _hits(line.text):
                    if line.kind == "added":
                        findings.append(_finding(file.path, line.number, hit, key))
                    else:
                        (gone if line.kind == "deleted" else kept).add(hit.value)
    return SecretScan(findings, len(gone), len(kept))


def scan_added(files: Iterable[PatchFile], *, key: bytes = b"") -> list[Finding]:
    """The secrets of the added lines, in order of file and line."""
    return scan(files, key=key).added


def mask(text: str) -> str:
    """The text with every secret replaced: for logs, pages, mails and feedback to agents."""
    pieces: list[str] = []
    done = 0
    for start, end in secret_spans(text):
        if end <= done:
            continue
        pieces += [text[done : max(start, done)], REDACTED]
        done = end
    return "".join([*pieces, text[done:]])


def secret_spans(text: str) -> list[tuple[int, int]]:
    """Where secrets stand in the text, in order; of two that begin at one place the longer first."""
    return sorted(((hit.start, hit.end) for hit in _hits(text)), key=lambda span: (span[0], -span[1]))


def mask_lines(texts: Sequence[str]) -> list[str]:
    """``mask`` of each line; of a key over several lines, every one of them is replaced."""
    whole = "\n".join(texts)
    if not ANY_HINT.search(whole.casefold()):
        return list(texts)
    blocks = [(hit.start, hit.end) for hit in _hits(whole) if "\n" in hit.value]
    masked, at = [], 0
    for text in texts:
        end = at + len(text)
        inside = any(start < end and at < stop for start, stop in blocks)
        masked.append(REDACTED if inside and text.strip() else mask(text))
        at = end + 1
    return masked


def masked_hunk(hunk: Hunk, start: int = 0, stop: int | None = None) -> list[Line]:
    """Lines of a hunk as anybody may see them, ``start`` to ``stop``, each side of it read by itself."""
    if b"PRIVATE KEY" in hunk.body:  # it may have begun before the part that is asked for
        return _masked(list(hunk))[start:stop]
    return _masked(list(hunk.part(start, stop)))


def _masked(lines: list[Line]) -> list[Line]:
    masked = list(lines)
    for side in ("deleted", "added"):
        places = [place for place, line in enumerate(lines) if line.kind in ("context", side)]
        texts = [lines[place].text for place in places]
        for place, before, after in zip(places, texts, mask_lines(texts), strict=True):
            if after != before:
                masked[place] = lines[place]._replace(text=after)
    return masked


def without_secrets(value: Any) -> Any:
    """JSON with every secret in its texts replaced; the same object where there is none.

    Names of fields stay, and so does what names an operation: it is what calls and logs are found by.
    """
    if isinstance(value, str):
        return mask(value) if ANY_HINT.search(value.casefold()) else value
    if isinstance(value, list):
        items = [without_secrets(item) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    if isinstance(value, dict):
        fields = {
            name: old if name == "operation_id" else without_secrets(old) for name, old in value.items()
        }
        return value if all(fields[name] is value[name] for name in value) else fields
    return value


def scanner_config(files: Iterable[PatchFile]) -> list[dict[str, str]]:
    """Changed files that tell secret scanners or reviews what to look at."""
    found = []
    for file in files:
        for path in file.names:
            name = path.rpartition("/")[2]
            if _SCANNER_FILES.fullmatch(name):
                found.append({"path": path, "what": "changes the secret scanner's rules"})
            elif name.casefold() == "codeowners":
                found.append({"path": path, "what": "changes who must review"})
    return found


def _hits(text: str) -> Iterator[_Hit]:
    lowered = text.casefold()
    # Most lines hold no hint at all, and are done here: this runs once per changed line.
    if not ANY_HINT.search(lowered):
        return
    taken: list[tuple[int, int]] = []
    for rule in _rules_with(frozenset(hint for hint in HINTS if hint in lowered)):
        for found in rule.pattern.finditer(text):
            start, end = found.span("secret")
            # The first rule names a secret; a broader one behind it does not name it again.
            if rule.accepts(found) and not any(a < end and start < b for a, b in taken):
                taken.append((start, end))
                yield _Hit(rule, found["secret"], start, end)


@lru_cache(maxsize=1024)
def _rules_with(hints: frozenset[str]) -> tuple[Rule, ...]:
    return tuple(rule for rule in RULES if not hints.isdisjoint(rule.hints))


def _finding(path: str, line: int, hit: _Hit, key: bytes) -> Finding:
    value = f"{hit.rule.name}\0{hit.value}".encode("utf-8", "surrogateescape")
    digest = hmac.new(key, value, hashlib.sha256) if key else hashlib.sha256(value)
    preview = hit.value[:4] + "…" if hit.rule.prefixed else ""
    return Finding(path, line, hit.rule.name, digest.hexdigest()[:16], preview)
