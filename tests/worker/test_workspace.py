"""Files by name: nothing planted in a checkout leads out of it."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

import pytest

from worker.sandbox.workspace import NotInWorkspace, Workspace

AT_FDCWD, RENAME_EXCHANGE = -100, 2


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("canary")
    return folder


@pytest.fixture
def workspace(tmp_path: Path, canary: Path) -> Workspace:
    root = tmp_path / "checkout"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a\n")
    (root / ".git").mkdir()
    (root / "folder-link").symlink_to(canary)
    (root / "file-link").symlink_to(canary / "secret")
    os.mkfifo(root / "pipe")
    return Workspace(root)


UPWARDS = ["/etc/passwd", "../outside/secret", "src/../../outside/secret"]
THROUGH_LINKS = ["folder-link/secret", "file-link"]
NO_FILES = ["", ".", ".git/config", ".GIT/hooks/x", "src/a.py/x", "src", "pipe", "absent", "a\0b"]
UNWRITABLE = ["../x", "/tmp/x", "folder-link/x", ".git/hooks/post-checkout", "src/a.py/x", "src"]


@pytest.mark.parametrize("path", [*UPWARDS, *THROUGH_LINKS, *NO_FILES])
def test_what_is_not_a_file_inside_cannot_be_read(workspace: Workspace, path: str) -> None:
    with pytest.raises(NotInWorkspace):
        workspace.read(path)


@pytest.mark.parametrize("path", UNWRITABLE)
def test_nothing_is_written_outside(workspace: Workspace, canary: Path, path: str) -> None:
    with pytest.raises(NotInWorkspace):
        workspace.write(path, b"x")
    assert [file.name for file in canary.iterdir()] == ["secret"]


def test_a_link_in_the_files_place_is_replaced_and_not_followed(workspace: Workspace, canary: Path) -> None:
    workspace.write("file-link", b"mine\n")
    assert (canary / "secret").read_text() == "canary"
    assert workspace.read("file-link") == b"mine\n"


def test_files_keep_their_mode_and_folders_are_made(workspace: Workspace) -> None:
    (workspace.root / "src" / "a.py").chmod(0o755)
    workspace.write("src/a.py", b"b\n")
    workspace.write("new/deep/file.txt", b"x")
    assert (workspace.root / "src" / "a.py").stat().st_mode & 0o777 == 0o755
    assert workspace.names() == ["file-link", "pipe", "new/deep/file.txt", "src/a.py"]
    assert workspace.names("src") == ["src/a.py"]


def test_a_folder_swapped_for_a_link_meanwhile_leads_nowhere(workspace: Workspace, canary: Path) -> None:
    """The agent's program swaps a folder and a link to it as fast as it can; no write ever lands outside."""
    stop = threading.Event()
    door, spare = workspace.root / "door", workspace.root / "spare"
    door.mkdir()
    spare.symlink_to(canary)

    exchange = ctypes.CDLL(None).renameat2

    def swap() -> None:
        while not stop.is_set():
            exchange(AT_FDCWD, bytes(door), AT_FDCWD, bytes(spare), RENAME_EXCHANGE)

    thread = threading.Thread(target=swap, daemon=True)
    thread.start()
    written = 0
    for number in range(2_000):
        try:
            workspace.write("door/file", str(number).encode())
            written += 1
        except NotInWorkspace:
            continue
    stop.set()
    thread.join()
    assert [file.name for file in canary.iterdir()] == ["secret"]
    assert 0 < written < 2_000
