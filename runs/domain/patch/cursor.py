"""A place in the bytes of a patch. Only LF ends a line."""

from __future__ import annotations

from runs.domain.patch.model import NotAPatch


class Cursor:
    """Reads lines forward; `pos` is a byte offset, `line` the 1-based number of the next line."""

    __slots__ = ("_end", "data", "line", "pos")

    def __init__(self, data: bytes) -> None:
        self.data, self.pos, self.line = data, 0, 1
        self._end = -1

    def peek(self) -> bytes | None:
        """The next line without its LF, or None at the end."""
        if self.pos >= len(self.data):
            return None
        self._end = self.data.find(b"\n", self.pos)
        if self._end < 0:
            raise NotAPatch(self.line, "ends in the middle of a line")
        return self.data[self.pos : self._end]

    def take(self) -> None:
        """Go past the line that `peek` showed."""
        self.pos, self.line = self._end + 1, self.line + 1

    def only_blank_left(self) -> bool:
        """Nothing but empty lines follow, such as an editor leaves at the end of a file."""
        rest = self.pos
        while self.data[rest : rest + 1] == b"\n":
            rest += 1
        return rest >= len(self.data)
