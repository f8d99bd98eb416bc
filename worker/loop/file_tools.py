"""Tools on the files of the checkout. None of them leads outside of it (`worker.sandbox.workspace`)."""

from __future__ import annotations

from typing import Any

from worker.checks.globs import matches
from worker.client.protocol import Json
from worker.loop.tools import CannotCall, Tool, ToolResult, Workbench, capped
from worker.sandbox.git import GitError
from worker.sandbox.workspace import MOST_LISTED

MOST_LINES = 2_000
SEARCH_SECONDS = 30.0
NOTHING_FOUND = 1


def _schema(required: list[str], **properties: Any) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


_PATH = _text("Path of the file, from the root of the repository")


def _read(bench: Workbench, arguments: Json) -> ToolResult:
    data = bench.workspace.read(arguments["path"])
    if b"\0" in data:
        raise CannotCall(f"{arguments['path']} is a binary file of {len(data)} bytes")
    lines = data.splitlines(keepends=True)
    first = max(1, int(arguments.get("first_line") or 1))
    count = max(1, min(MOST_LINES, int(arguments.get("lines") or MOST_LINES)))
    shown = lines[first - 1 : first - 1 + count]
    left = len(lines) - (first - 1) - len(shown)
    text = capped(b"".join(shown))
    return ToolResult(text + (f"\n[{left} more lines, from line {first + len(shown)}]" if left > 0 else ""))


def _list(bench: Workbench, arguments: Json) -> ToolResult:
    names = bench.workspace.names(arguments.get("path") or "")
    more = len(names) > MOST_LISTED
    if pattern := arguments.get("pattern"):
        names = [name for name in names if matches(name, [pattern])]
    text = "\n".join(names[:MOST_LISTED]) or "No files."
    return ToolResult(capped(text.encode()) + (f"\n[only the first {MOST_LISTED}]" if more else ""))


def _search(bench: Workbench, arguments: Json) -> ToolResult:
    path = str(arguments.get("path") or "").strip("/")
    bench.workspace.check(path)
    only = [f"--include={arguments['include']}"] if arguments.get("include") else []
    argv = ["grep", "-rnHIE", "--exclude-dir=.git", *only, "-e", arguments["pattern"], "--", f"./{path}"]
    result = bench.execute(
        bench.checkout.command(argv, cwd=bench.checkout.path, network=False, timeout_seconds=SEARCH_SECONDS)
    )
    if result.exit_code == NOTHING_FOUND and not result.output:
        return ToolResult("Nothing found.")
    # grep may have found much before it met a file that it could not read.
    failed = not result.ok and result.exit_code != NOTHING_FOUND and not result.output.startswith(b"./")
    return ToolResult(capped(result.output), "failed" if failed else "succeeded", stopped=result.stopped)


def _replace(bench: Workbench, arguments: Json) -> ToolResult:
    path, old, new = arguments["path"], arguments["old"].encode(), arguments["new"].encode()
    data = bench.workspace.read(path)
    found = data.count(old) if old else 0
    if not found:
        raise CannotCall(f"{path} does not contain that text; read it again, spaces and all")
    if found > 1 and not arguments.get("all"):
        raise CannotCall(f"{path} contains that text {found} times: give more of it, or say all: true")
    bench.workspace.write(path, data.replace(old, new))
    return ToolResult(f"Replaced {found} place{'s' if found != 1 else ''} in {path}.")


def _write(bench: Workbench, arguments: Json) -> ToolResult:
    data = arguments["content"].encode("utf-8", "replace")
    bench.workspace.write(arguments["path"], data)
    return ToolResult(f"Wrote {len(data)} bytes to {arguments['path']}.")


def _patch(bench: Workbench, arguments: Json) -> ToolResult:
    patch = arguments["patch"].encode("utf-8", "replace")
    try:
        bench.checkout.edit(patch if patch.endswith(b"\n") else patch + b"\n")
    except GitError as error:
        raise CannotCall(f"the patch does not apply, and nothing was changed: {error}") from error
    return ToolResult("Applied.")


FILE_TOOLS = (
    Tool(
        "read",
        "Read a text file, 2,000 lines at most.",
        _schema(["path"], path=_PATH, first_line={"type": "integer"}, lines={"type": "integer"}),
        "none",
        _read,
        lambda arguments: f"Reading {arguments.get('path')}",
    ),
    Tool(
        "list",
        "List the files below a folder, the whole repository when none is named.",
        _schema([], path=_text("Folder"), pattern=_text("Glob as in .gitignore")),
        "none",
        _list,
        lambda arguments: f"Listing {arguments.get('path') or 'the files'}",
    ),
    Tool(
        "search",
        "Search text files for an extended regular expression.",
        _schema(
            ["pattern"],
            pattern=_text("Extended regular expression"),
            path=_text("File or folder"),
            include=_text("Glob that file names must match"),
        ),
        "none",
        _search,
        lambda arguments: f"Searching for {arguments.get('pattern')}",
    ),
    Tool(
        "replace",
        "Replace text in a file. It must occur exactly once, unless all is true.",
        _schema(
            ["path", "old", "new"],
            path=_PATH,
            old=_text("The text as it stands, spaces and all"),
            new=_text("What stands there afterwards"),
            all={"type": "boolean"},
        ),
        "workspace",
        _replace,
        lambda arguments: f"Editing {arguments.get('path')}",
    ),
    Tool(
        "apply_patch",
        "Change files by a unified diff with a/ and b/ before the names; all of it or nothing.",
        _schema(["patch"], patch=_text("The unified diff")),
        "workspace",
        _patch,
        lambda arguments: "Applying a patch",
    ),
    Tool(
        "write",
        "Write a whole file, new or not.",
        _schema(["path", "content"], path=_PATH, content=_text("All of it")),
        "workspace",
        _write,
        lambda arguments: f"Writing {arguments.get('path')}",
    ),
)
