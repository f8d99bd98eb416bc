"""The line of a file none of whose changes are shown yet. A page may hold thousands of them: written here and
not by a template, they take a fifth of the time, and the page comes before its reader looks away."""

from __future__ import annotations

from typing import Final

from django.utils.html import format_html
from django.utils.safestring import SafeString

from runs.domain.facts import Json

_FILE: Final = (
    '<section class="file" id="{anchor}" data-item aria-labelledby="{anchor}-name"><header>'
    '<h3 id="{anchor}-name"><a class="mono" data-open href="#{anchor}">{before}<bdi>{path}</bdi></a></h3>'
    "{badges}"
    '<span class="grow"></span><span class="mono nowrap"><span class="added">+{added}</span> '
    '<span class="deleted">−{deleted}</span></span></header><div class="note">{note} <a class="link" '
    'href="{url}" data-load hx-get="{url}" hx-target="closest .file" hx-swap="outerHTML">Show it</a></div>'
    "</section>"
)
_BADGE: Final = '<span class="badge" data-tone="{}">{}</span>'


def brief_file(file: Json) -> SafeString:
    """The file of a difference (runs/_diff.html) as markup, with the way to its changes."""
    badges = [(file["badge"]["tone"], file["badge"]["text"])] if file.get("badge") else []
    badges += [("quiet", "as before")] if file["known"] else []
    before = format_html('<bdi class="muted">{}</bdi> → ', file["old_path"]) if file["old_path"] else ""
    return format_html(
        _FILE,
        anchor=file["anchor"],
        before=before,
        path=file["path"],
        badges=SafeString("".join(format_html(_BADGE, *badge) for badge in badges)),
        added=file["added"],
        deleted=file["deleted"],
        note=f"{file['note']} {file['rest']}".strip(),
        url=file["load_url"],
    )
