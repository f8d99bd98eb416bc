"""The look holds its promises: contrast, one source of colour, nothing inline, drawn icons, safe text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.test import RequestFactory
from django.urls import path
from pytest_django.fixtures import Settings

from runs.templatetags import ui
from runs.web import patterns
from runs.web.pattern_review import SHA256

ROOT = Path(__file__).resolve().parents[2]
CSS = ROOT / "static" / "css"
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
TOKENS = (CSS / "tokens.css").read_text()
SPRITE = set(re.findall(r'id="i-([\w-]+)"', (ROOT / "templates/components/icons.html").read_text()))

TONES = ("ok", "bad", "warn", "busy", "quiet")
INKS = ("code-keyword", "code-string", "code-number", "code-comment")
READABLE = [
    *[(ink, ground) for ink in ("text", "muted") for ground in ("bg", "panel", "sunken", "hover")],
    *[(tone, f"{tone}-bg") for tone in TONES],
    *[(tone, ground) for tone in TONES for ground in ("bg", "panel", "sunken", "hover")],
    *[("text", f"{tone}-bg") for tone in TONES],
    *[(ink, ground) for ink in (*INKS, "text") for ground in ("panel", "sunken", "add", "del")],
    *[("muted", ground) for ground in ("add", "del")],
    *[("text", ground) for ground in ("add-ink", "del-ink", "selection")],
    *[(ink, ground) for ink in INKS for ground in ("add-ink", "del-ink")],
    ("on-accent", "accent"),
]
VISIBLE = [(edge, ground) for edge in ("edge", "accent") for ground in ("bg", "panel", "sunken")]


def token(name: str, scheme: str) -> str:
    found = re.search(rf"--{name}: light-dark\((#\w+), (#\w+)\);", TOKENS)
    assert found, f"--{name} is not a pair of colours"
    return found[1 if scheme == "light" else 2]


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_wcag_defines_it() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(READABLE, 4.5), (VISIBLE, 3.0)], ids=["text", "edges"])
def test_every_pairing_in_use_is_aa_in_both_schemes(
    scheme: str, pairs: list[tuple[str, str]], least: float
) -> None:
    measured = {pair: round(contrast(*(token(name, scheme) for name in pair)), 2) for pair in pairs}
    assert {pair: ratio for pair, ratio in measured.items() if ratio < least} == {}


@pytest.mark.parametrize("sheet", ["base.css", "components.css"])
def test_only_the_tokens_state_a_colour(sheet: str) -> None:
    values = re.findall(r":([^;{}]+)[;}]", (CSS / sheet).read_text())
    stated = [v for v in values if re.search(r"#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(|light-dark\(", v)]
    assert stated == []


@pytest.mark.parametrize("sheet", ["base.css", "components.css"])
def test_every_token_in_use_exists(sheet: str) -> None:
    used = set(re.findall(r"var\(--([\w-]+)", (CSS / sheet).read_text()))
    assert used - set(re.findall(r"--([\w-]+):", TOKENS)) <= {"tone", "tone-bg"}


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda p: str(p.relative_to(ROOT / "templates")))
def test_no_template_needs_inline_style_or_script(template: Path) -> None:
    markup = re.sub(r"{% comment %}.*?{% endcomment %}", "", template.read_text(), flags=re.DOTALL)
    assert not re.search(r"\sstyle=|<style\b|\son[a-z]+=|\shx-on|javascript:|https?://", markup)
    assert not re.search(r"<script(?![^>]*\ssrc=)", markup)


def test_every_icon_in_use_is_drawn() -> None:
    markup = "".join(template.read_text() for template in TEMPLATES)
    used = set(re.findall(r'{% icon "([\w-]+)"', markup)) | set(re.findall(r'"#i-([\w-]+)"', markup))
    assert used <= SPRITE


def test_the_fourteen_states_have_fourteen_drawn_icons() -> None:
    icons = {state["icon"] for state in patterns.STATES}
    assert len(patterns.STATES) == len(icons) == 14
    assert icons <= SPRITE
    assert {state["tone"] for state in patterns.STATES} == set(TONES)


def test_the_script_stays_small_and_evaluates_nothing() -> None:
    script = (ROOT / "static/js/app.js").read_text()
    assert len(script.splitlines()) < 150
    assert not re.search(r"\beval\(|new Function|\.style\b|document\.write", script)


# The pages, with addresses that answer nothing: what is tested here is the markup.


def empty_page(_request: HttpRequest) -> HttpResponse:
    return HttpResponse()


NAMES = (
    *(
        "home",
        "tasks",
        "task_new",
        "runs",
        "campaigns",
        "approvals",
        "outcomes",
        "autonomy",
        "repositories",
        "workers",
        "lifecycle",
    ),
    *("notifications", "patterns", "login", "logout", "account", "tasks_bulk"),
)
urlpatterns = [path(f"{name}/", empty_page, name=name) for name in NAMES] + [path("admin/", admin.site.urls)]


@pytest.fixture
def page(settings: Settings, db: None) -> str:
    settings.ROOT_URLCONF = __name__
    request = RequestFactory().get("/runs/")
    request.user = get_user_model().objects.create_user(username="carol", is_staff=True)
    return patterns.patterns(request).content.decode()


def test_the_patterns_page_shows_every_state(page: str) -> None:
    for state in patterns.STATES:
        assert f'data-state="{state["state"]}"' in page


def test_the_patterns_page_shows_charts_bulk_actions_and_output_in_each_state(page: str) -> None:
    for said in ("Runs that ended, by day", "With the chosen", "Follow", "No line holds it", "Nothing yet"):
        assert said in page
    assert "data-live" not in page


def test_the_current_section_is_marked(page: str) -> None:
    assert '<a href="/runs/" aria-current="page">Runs</a>' in page
    assert page.count('<a href="/tasks/">Tasks</a>') == 1


def test_text_of_an_agent_is_shown_and_never_run(page: str) -> None:
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert" not in page


def test_htmx_may_not_evaluate_or_style(page: str) -> None:
    for setting in ('"allowEval":false', '"allowScriptTags":false', '"includeIndicatorStyles":false'):
        assert setting in page


def test_a_destructive_action_names_its_effect_and_asks_a_reason(page: str) -> None:
    form = page.split('data-action="stop"')[1].split("</details>", maxsplit=1)[0]
    assert "Its partial patch and logs are kept" in form
    assert re.search(r'<textarea[^>]*name="reason"[^>]*required', form)


def test_what_failed_stands_before_what_passed_and_the_passed_are_folded(page: str) -> None:
    order = [page.index(f'id="guard-{name}"') for name in ("paths", "base")]
    folded = page.index('id="guards-passed"')
    assert order == sorted(order)
    assert order[-1] < folded < page.index('id="guard-verification"')


def test_a_decision_posts_what_was_shown_and_a_closed_door_says_why(page: str) -> None:
    form = page.split('id="verdict"')[1].split("</form>", maxsplit=1)[0]
    assert 'name="version" value="3"' in form
    assert f'name="subject_sha256" value="{SHA256}"' in form
    assert re.search(r'value="approve"[^>]* disabled aria-describedby="why-not"', form)
    assert "nobody has waived it" in form


def test_strangers_and_people_without_staff_see_no_patterns(settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__
    request = RequestFactory().get("/patterns/")
    request.user = AnonymousUser()
    assert patterns.patterns(request).status_code == 302
    request.user = get_user_model()(username="vera")
    with pytest.raises(PermissionDenied):
        patterns.patterns(request)


@pytest.mark.parametrize("name", ["403", "404", "500", "403_csrf"])
def test_error_pages_need_no_context(settings: Settings, name: str) -> None:
    settings.ROOT_URLCONF = __name__
    assert "<h1>" in render_to_string(f"{name}.html")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (48, "48 s"),
        (192, "3 min 12 s"),
        (7200, "2 h"),
        (7201, "2 h"),
        (timedelta(days=4, hours=6, minutes=1), "4 d 6 h"),
        (None, "–"),
    ],
)
def test_durations_have_at_most_two_units(value: timedelta | float | None, text: str) -> None:
    assert ui.duration(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1023, "1023 B"), (4300, "4.2 KiB"), (64 * 1024**2, "64 MiB"), (2 * 1024**4, "2048 GiB")],
)
def test_sizes_are_for_people(value: int, text: str) -> None:
    assert ui.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("0.41"), "$0.41"),
        ("1234.5", "$1,234.50"),
        (0, "$0.00"),
        ("0.0004", "< $0.01"),
        (None, "–"),
        ("no", "–"),
    ],
)
def test_small_costs_are_not_rounded_to_nothing(value: Decimal | float | str | None, text: str) -> None:
    assert ui.money(value) == text


def test_a_moment_is_exact_without_the_script() -> None:
    at = datetime(2026, 7, 3, 10, 20, 30, tzinfo=UTC)
    assert ui.moment(at) == (
        '<time datetime="2026-07-03T10:20:30Z" data-relative>2026-07-03 10:20:30 UTC</time>'
    )


def test_names_of_icons_and_counts_are_escaped() -> None:
    assert "<" not in ui.icon('x"><i>').removeprefix("<svg").split("<use")[1].split("/>")[0]
    assert "99+" in ui.count_badge(100)
