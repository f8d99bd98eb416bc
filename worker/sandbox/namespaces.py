"""Walls around one command, of what the kernel gives to everybody: user, mount, process and network
namespaces. Standard library only; loaded by the supervisor where walls are asked for.

Inside, the command is nobody without a single capability. It sees its own processes alone; the file
system is read-only but for its own folders, what is named as hidden is empty, and unless it may use the
network there is only a loopback of its own. Nested namespaces give nothing back: the kernel locks
what was made read-only here.

`Walls`, as JSON: `{"keep": [folders], "hide": [paths], "tmp": folder or "", "network": bool}`.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import socket
import struct
from typing import Any

CLONE_NEWNS, CLONE_NEWIPC = 0x00020000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
MOUNT_SETATTR = 442
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY = 1
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
CAPSET = {"x86_64": 126, "aarch64": 91, "riscv64": 91, "s390x": 185, "ppc64le": 184}
CAPABILITY_VERSION_3 = 0x20080522
NOBODY = 65534
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a file system of its own is mounted there
LAST_CAPABILITY = 64

_libc = ctypes.CDLL(None, use_errno=True)


def leave_shared(walls: dict[str, Any]) -> None:
    """In the supervisor: the next process that it forks is the first of a world of its own.

    Raises OSError where the machine does not allow it.
    """
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWIPC
    _must(_libc.unshare(flags | (0 if walls["network"] else CLONE_NEWNET)), "unshare")
    # Not root even inside: programs that believe to be root try things that only root can.
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid or NOBODY} {uid} 1")
    _write("/proc/self/gid_map", f"{gid or NOBODY} {gid} 1")


def build(walls: dict[str, Any]) -> None:
    """In that first process: mounts and loopback. Raises OSError."""
    _must(_libc.unshare(CLONE_NEWNS), "unshare mounts")
    # Opened now: hidden below, and a folder of the mounts before cannot be bound into these.
    keep = [(path, _open(path)) for path in walls["keep"]]
    private = _open(walls["tmp"]) if walls["tmp"] else -1
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    _read_only("/", on=True, recursive=True)
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if os.path.isdir(SHARED_MEMORY):  # noqa: PTH112 - pathlib would double the start time
        _mount("shm", SHARED_MEMORY, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    if private >= 0:
        _bind(private, "/tmp")  # noqa: S108 - the command's own from here on
        os.close(private)
    for path in walls["hide"]:
        _hide(path)
    # Last: the sandbox may lie in what was hidden or replaced.
    for path, folder in keep:
        _bind(folder, path)
        os.close(folder)
    if not walls["network"]:
        _loopback_up()


def drop_capabilities() -> None:
    """In the command, before it becomes what it is."""
    for capability in range(LAST_CAPABILITY):
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    _must(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    _must(_libc.syscall(CAPSET[platform.machine()], header, bytes(24)), "capset")


def _hide(path: str) -> None:
    """An empty folder or file in its place."""
    if os.path.isdir(path):  # noqa: PTH112
        _mount("hidden", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=0755")
    elif os.path.exists(path):  # noqa: PTH110
        _mount("/dev/null", path, None, MS_BIND)


def _open(path: str) -> int:
    """The folder itself, and nothing that a link in its place leads to."""
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)


def _bind(folder: int, target: str) -> None:
    """The opened folder, writable, at `target`, which may lie in what was hidden."""
    os.makedirs(target, exist_ok=True)  # noqa: PTH103
    os.fchdir(folder)
    _mount(".", target, None, MS_BIND)
    _read_only(target, on=False, recursive=False)
    os.chdir("/")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    done = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() if options else None,
    )
    _must(done, f"mount {target}")


def _read_only(path: str, *, on: bool, recursive: bool) -> None:
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY if on else 0, 0 if on else MOUNT_ATTR_RDONLY, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    done = _libc.syscall(MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, attributes, len(attributes))
    _must(done, f"mount_setattr {path}")


def _loopback_up() -> None:
    """Checks that talk to a server of their own need it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, asked))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def _write(path: str, text: str) -> None:
    with open(path, "w") as stream:  # noqa: PTH123
        stream.write(text)


def _must(done: int, what: str) -> None:
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
