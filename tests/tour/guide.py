"""A document's commands, as a reader would type them: one shell, one block after the other."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXPECTED = re.compile(r"[^#\n]*\s#\s(?P<text>.+)$")
_MARK = "--- block {number} ---"


@dataclass(frozen=True, slots=True)
class Block:
    """Commands of one block; ``expects`` is what their comments promise, in order."""

    commands: str
    expects: tuple[str, ...]


def blocks_of(document: Path) -> list[Block]:
    """Every ``sh`` block of a document. A comment behind a command names what is printed there."""
    return [Block(text, _expected(text)) for text in _BLOCK.findall(document.read_text())]


def follow(blocks: list[Block], *, environment: dict[str, str], folder: Path, seconds: float) -> list[str]:
    """What each block printed; it stops at the first command that fails."""
    script = folder / "guide.sh"
    marked = [f"echo '{_MARK.format(number=n)}'\n{block.commands}" for n, block in enumerate(blocks)]
    script.write_text("set -eu -o pipefail\n" + "\n".join(marked))
    shell = subprocess.run(
        ["bash", str(script)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert shell.returncode == 0, shell.stdout
    marks = re.escape(_MARK).replace(r"\{number\}", r"\d+")
    return re.split(f"{marks}\n", shell.stdout)[1:]


def _expected(commands: str) -> tuple[str, ...]:
    in_document = False
    found = []
    for line in commands.splitlines():
        if in_document:
            in_document = line != "END"
        elif "<<'END'" in line:
            in_document = True
        elif match := _EXPECTED.match(line):
            found.append(match["text"].strip())
    return tuple(found)
