"""The kinds of secrets that are looked for: data, with the few checks that data needs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass


def _any(found: re.Match[str]) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind. `pattern` names the group `secret`; one of `hints` (lower case) must be in
    the text before the pattern is tried. `prefixed`: the first characters tell the kind only.
    """

    name: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...]
    prefixed: bool = True
    accepts: Callable[[re.Match[str]], bool] = _any


_PUBLISHED = frozenset({"AKIA" + "IOSFODNN7EXAMPLE", "wJalrXUtnFEMI" + "/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"})
_PLACEHOLDER = re.compile(
    r"[$<{(%\[]|\*{3}|x{4}|X{4}|\.{3}|your[-_]|my[-_]|change[-_]?me|example|placeholder|dummy"
    r"|redacted|os\.environ|process\.env|getenv|secrets?\.|settings\.|config\.",
    re.IGNORECASE,
)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_DIGEST = re.compile(r"(sha\d{1,3}|md5)[-:]", re.IGNORECASE)
_HARMLESS_NAME = re.compile(r"hash|digest|checksum|integrity|fingerprint|public|example", re.IGNORECASE)
_LOCAL = re.compile(
    r"localhost|127\.|0\.0\.0\.0|\[::1\]|(?:db|postgres|mysql|mongo|redis|rabbitmq)(?::|$)"
    r"|(?:[\w-]+\.)*example\.(?:com|org|net|invalid)\b"
)
_COMMON = frozenset({"password", "passwd", "pass", "secret", "changeme", "test", "postgres"})


# Bits per character. Words and repeated characters stay below, random text is above.
_RANDOM_BITS = 3.2


def _entropy(text: str) -> float:
    counts = Counter(text).values()
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts)


def _unpublished(found: re.Match[str]) -> bool:
    return found["secret"] not in _PUBLISHED


def _looks_random(found: re.Match[str]) -> bool:
    value, name = found["secret"], found["name"]
    if _HARMLESS_NAME.search(name) or value in _PUBLISHED:
        return False
    if _PLACEHOLDER.search(value) or _UUID.fullmatch(value) or _DIGEST.match(value):
        return False
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return mixed and _entropy(value) >= _RANDOM_BITS


def _real_address(found: re.Match[str]) -> bool:
    password, user = found["secret"], found["user"]
    if password.casefold() in _COMMON or password == user or _PLACEHOLDER.search(password):
        return False
    return not _LOCAL.match(found["host"])


def _header(found: re.Match[str]) -> bool:
    return not _PLACEHOLDER.search(found["secret"])


def _rule(name: str, pattern: str, *hints: str, flags: int = 0) -> Rule:
    return Rule(name, re.compile(pattern, flags), hints)


_NAMED = (
    r"(?P<name>[\w.-]{0,40}(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key"
    r"|auth[_-]?key|private[_-]?key|signing[_-]?key|encryption[_-]?key|credentials?)"
    r"[\w.-]{0,20})"
)
_NAME_HINTS = ("passw", "passphrase", "secret", "token", "key", "credential")

# Ordered from the particular to the general: where two match, the first names the secret.
RULES: tuple[Rule, ...] = (
    # To the end of the block where the text holds it, so that masking takes all of it; else the lines that
    # came so far, masked or not.
    Rule(
        "private_key",
        re.compile(
            r"(?P<secret>-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?s:.{0,20000}?)-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r"|(?:\s{1,4}[A-Za-z0-9+/=\[\]*]{16,200}){0,400}))"
        ),
        ("private key",),
        prefixed=False,
    ),
    Rule(
        "aws_access_key_id",
        re.compile(r"(?<![A-Za-z0-9])(?P<secret>(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})(?![A-Za-z0-9])"),
        ("akia", "asia", "abia", "acca"),
        accepts=_unpublished,
    ),
    Rule(
        "aws_secret_key",
        re.compile(
            r"(?i:aws|secret_?access_?key)[^\n]{0,40}?[\"'=:\s]"
            r"(?P<secret>(?=[A-Za-z0-9/+]{0,39}[0-9])(?=[A-Za-z0-9/+]{0,39}[A-Z])"
            r"(?=[A-Za-z0-9/+]{0,39}[a-z])[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
        ),
        ("aws", "access_key", "accesskey"),
        prefixed=False,
        accepts=_unpublished,
    ),
    _rule(
        "github_token",
        r"(?P<secret>gh[pousr]_[A-Za-z0-9]{36,255})",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
    ),
    _rule(
        "github_fine_grained_token",
        r"(?P<secret>github_pat_[A-Za-z0-9_]{50,255})",
        "github_pat_",
    ),
    _rule(
        "gitlab_token",
        r"(?P<secret>gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas|imt|feed)-[\w-]{20,200})",
        "glpat-",
        "gldt-",
        "glrt-",
        "glcbt-",
        "glptt-",
        "glft-",
        "glsoat-",
        "glagent-",
        "gloas-",
        "glimt-",
        "glfeed-",
    ),
    _rule("slack_token", r"(?P<secret>xox[abeoprs]-[A-Za-z0-9-]{10,250})", "xox"),
    _rule(
        "slack_webhook",
        r"(?P<secret>https://hooks\.slack\.com/(?:services|workflows|triggers)/[\w/+-]{20,200})",
        "hooks.slack.com",
    ),
    _rule("stripe_live_key", r"(?P<secret>(?:sk|rk)_live_[A-Za-z0-9]{16,250})", "_live_"),
    _rule("google_api_key", r"(?<![\w-])(?P<secret>AIza[\w-]{35})(?![\w-])", "aiza"),
    _rule("google_oauth_secret", r"(?P<secret>GOCSPX-[\w-]{28})", "gocspx-"),
    _rule("npm_token", r"(?<!\w)(?P<secret>npm_[A-Za-z0-9]{36})(?!\w)", "npm_"),
    _rule("pypi_token", r"(?P<secret>pypi-AgEI[\w-]{50,1000})", "pypi-agei"),
    _rule("sendgrid_key", r"(?P<secret>SG\.[\w-]{22}\.[\w-]{43})", "sg."),
    _rule("anthropic_key", r"(?P<secret>sk-ant-[\w-]{40,250})", "sk-ant-"),
    _rule(
        "openai_key",
        r"(?<![\w-])(?P<secret>sk-(?:proj-|svcacct-|admin-)[\w-]{40,250}|sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20})",
        "sk-",
    ),
    _rule("hugging_face_token", r"(?<!\w)(?P<secret>hf_[A-Za-z0-9]{34,60})(?!\w)", "hf_"),
    _rule("digitalocean_token", r"(?P<secret>do[oprt]_v1_[a-f0-9]{64})", "_v1_"),
    _rule("vault_token", r"(?<!\w)(?P<secret>hv[sb]\.[\w-]{24,300})", "hvs.", "hvb."),
    _rule("twilio_key", r"(?<!\w)(?P<secret>SK[0-9a-f]{32})(?!\w)", "sk"),
    _rule("telegram_bot_token", r"(?<!\d)(?P<secret>\d{8,10}:AA[\w-]{33})(?![\w-])", ":aa"),
    _rule(
        "azure_storage_key",
        r"AccountKey=(?P<secret>[A-Za-z0-9+/]{86}==)",
        "accountkey=",
    ),
    _rule(
        "json_web_token",
        r"(?<![\w-])(?P<secret>eyJ[\w-]{10,4000}\.eyJ[\w-]{10,8000}\.[\w-]{16,2000})",
        "eyj",
    ),
    Rule(
        "authorization_header",
        re.compile(
            r"(?i)authorization[\"']?\s{0,5}[:=,]\s{0,5}f?[\"']?(?:bearer|basic|token)\s{1,5}"
            r"(?P<secret>[\w.~+/=-]{16,2000})"
        ),
        ("authorization",),
        prefixed=False,
        accepts=_header,
    ),
    Rule(
        "address_with_password",
        re.compile(
            r"(?i)\b[a-z][a-z0-9+.-]{1,20}://(?P<user>[^\s:/@\"']{0,100}):"
            r"(?P<secret>[^\s:/@\"']{4,200})@(?P<host>[^\s/\"']{1,200})"
        ),
        ("://",),
        prefixed=False,
        accepts=_real_address,
    ),
    Rule(
        "secret_in_quotes",
        re.compile(
            r"(?i)(?<![\w.-])"
            + _NAMED
            + r"[\"']?\]?\s{0,10}(?:=>|:=|=|:)\s{0,10}[rbuf]{0,2}[\"'`](?P<secret>[^\s\"'`]{12,500})[\"'`]"
        ),
        _NAME_HINTS,
        prefixed=False,
        accepts=_looks_random,
    ),
    Rule(
        "secret_in_environment",
        re.compile(
            r"(?m)(?:^|[\s;])(?:export )?(?=[A-Z])(?P<name>[A-Z0-9_]{0,40}"
            r"(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_KEY|CREDENTIALS?)"
            r"[A-Z0-9_]{0,20})=(?P<secret>[^\s\"'`;,]{12,500})"
        ),
        _NAME_HINTS,
        prefixed=False,
        accepts=_looks_random,
    ),
)

HINTS = frozenset(hint for rule in RULES for hint in rule.hints)
ANY_HINT = re.compile("|".join(map(re.escape, sorted(HINTS))))
