"""Patches as git printed them, or as somebody forged them: exact bytes with what git says.

Each case: the patch, the base tree as (path, mode, content or commit id), and what
`git apply --numstat` lists. Keys are joined from pieces so that none stands whole here.
"""

from __future__ import annotations

from typing import NamedTuple

KEY = "AKIA" + "Z7Q4M2X9T1B6K3WD"
_K = KEY.encode()


class Case(NamedTuple):
    patch: bytes
    base: tuple[tuple[str, str, bytes], ...]
    numstat: tuple[tuple[str, str, str], ...]


CASES: dict[str, Case] = {
    "sqlcomment": Case(
        (
            b"diff --git a/q.sql b/q.sql\n"
            b"index b3d2763..19d33eb 100644\n"
            b"--- a/q.sql\n"
            b"+++ b/q.sql\n"
            b"@@ -1,4 +1,3 @@\n"
            b"--- old note\n"
            b" select 1;\n"
            b" select 2;\n"
            b" select 3;\n"
            b"@@ -9,4 +8,4 @@ select 7;\n"
            b" select 8;\n"
            b" select 9;\n"
            b" select 10;\n"
            b"-select 11;\n"
            b"+select 99;\n"
        ),
        (
            (
                "q.sql",
                "100644",
                (
                    b"-- old note\n"
                    b"select 1;\n"
                    b"select 2;\n"
                    b"select 3;\n"
                    b"select 4;\n"
                    b"select 5;\n"
                    b"select 6;\n"
                    b"select 7;\n"
                    b"select 8;\n"
                    b"select 9;\n"
                    b"select 10;\n"
                    b"select 11;\n"
                ),
            ),
        ),
        (("1", "2", "q.sql"),),
    ),
    "quoted_ui": Case(
        (
            b'diff --git "a/caf\\303\\251 notes.txt" "b/caf\\303\\251 notes.txt"\n'
            b"index 7898192..6178079 100644\n"
            b'--- "a/caf\\303\\251 notes.txt"\t\n'
            b'+++ "b/caf\\303\\251 notes.txt"\t\n'
            b"@@ -1 +1 @@\n"
            b"-a\n"
            b"+b\n"
        ),
        (("café notes.txt", "100644", (b"a\n")),),
        (("1", "1", "café notes.txt"),),
    ),
    "quoted_tab": Case(
        (
            b'diff --git "a/we\\tird\\"q.txt" "b/we\\tird\\"q.txt"\n'
            b"index 7898192..6178079 100644\n"
            b'--- "a/we\\tird\\"q.txt"\n'
            b'+++ "b/we\\tird\\"q.txt"\n'
            b"@@ -1 +1 @@\n"
            b"-a\n"
            b"+b\n"
        ),
        (('we\tird"q.txt', "100644", (b"a\n")),),
        (("1", "1", 'we\tird"q.txt'),),
    ),
    "crlf": Case(
        (
            b"diff --git a/w.txt b/w.txt\n"
            b"index c30dea8..57213eb 100644\n"
            b"--- a/w.txt\n"
            b"+++ b/w.txt\n"
            b"@@ -1,2 +1,2 @@\n"
            b" a\r\n"
            b"-b\r\n"
            b"+B\r\n"
        ),
        (("w.txt", "100644", (b"a\r\nb\r\n")),),
        (("1", "1", "w.txt"),),
    ),
    "lone_cr": Case(
        (
            b"diff --git a/m.txt b/m.txt\n"
            b"index 7898192..7d9025a 100644\n"
            b"--- a/m.txt\n"
            b"+++ b/m.txt\n"
            b"@@ -1 +1,2 @@\n"
            b" a\n"
            b"+norm R\rX done\n"
        ),
        (("m.txt", "100644", (b"a\n")),),
        (("1", "0", "m.txt"),),
    ),
    "ff_ls": Case(
        (
            b"diff --git a/u.py b/u.py\n"
            b"index 1337a53..cd3c3ca 100644\n"
            b"--- a/u.py\n"
            b"+++ b/u.py\n"
            b"@@ -1 +1,3 @@\n"
            b" a = 1\n"
            b'+b = "\x0c \xe2\x80\xa8 \xc2\x85 \x1c \x0b end"\n'
            b"+c = 3\n"
        ),
        (("u.py", "100644", (b"a = 1\n")),),
        (("2", "0", "u.py"),),
    ),
    "hidden_ls": Case(
        (
            (
                b"diff --git a/u.py b/u.py\n"
                b"index 1337a53..9a7b6de 100644\n"
                b"--- a/u.py\n"
                b"+++ b/u.py\n"
                b"@@ -1 +1,2 @@\n"
                b" a = 1\n"
                b'+# note\xe2\x80\xa8-a = 1\xe2\x80\xa8+k = "'
            )
            + _K
            + (b'"\n')
        ),
        (("u.py", "100644", (b"a = 1\n")),),
        (("1", "0", "u.py"),),
    ),
    "latin1": Case(
        (
            b"diff --git a/l.txt b/l.txt\n"
            b"index 5ea0602..1ffc159 100644\n"
            b"--- a/l.txt\n"
            b"+++ b/l.txt\n"
            b"@@ -1 +1 @@\n"
            b"-na\xefve\n"
            b"+na\xefve caf\xe9\n"
        ),
        (("l.txt", "100644", (b"na\xefve\n")),),
        (("1", "1", "l.txt"),),
    ),
    "noeol_both": Case(
        (
            b"diff --git a/f.txt b/f.txt\n"
            b"index 0a207c0..817f660 100644\n"
            b"--- a/f.txt\n"
            b"+++ b/f.txt\n"
            b"@@ -1,2 +1,2 @@\n"
            b" a\n"
            b"-b\n"
            b"\\ No newline at end of file\n"
            b"+c\n"
            b"\\ No newline at end of file\n"
        ),
        (("f.txt", "100644", (b"a\nb")),),
        (("1", "1", "f.txt"),),
    ),
    "noeol_only": Case(
        (
            b"diff --git a/f.txt b/f.txt\n"
            b"index 0a207c0..422c2b7 100644\n"
            b"--- a/f.txt\n"
            b"+++ b/f.txt\n"
            b"@@ -1,2 +1,2 @@\n"
            b" a\n"
            b"-b\n"
            b"\\ No newline at end of file\n"
            b"+b\n"
        ),
        (("f.txt", "100644", (b"a\nb")),),
        (("1", "1", "f.txt"),),
    ),
    "binary_after_text": Case(
        (
            b"diff --git a/a.json b/a.json\n"
            b"index 6ed63af..3cc0ecb 100644\n"
            b"--- a/a.json\n"
            b"+++ b/a.json\n"
            b"@@ -1 +1 @@\n"
            b"-[1,2]\n"
            b"+[1,2,3]\n"
            b"diff --git a/z.png b/z.png\n"
            b"index 2ee55da7348a42d464300b58367eac68e991f889..393118140a847b6aa768da1295639b7687d0274f 100644\n"  # noqa: E501
            b"GIT binary patch\n"
            b"literal 9\n"
            b"QcmeAS@N;KiWMW|j01G_<djJ3c\n"
            b"\n"
            b"literal 8\n"
            b"PcmeAS@N;KiWMT#Y3Bdt%\n"
            b"\n"
        ),
        (
            ("a.json", "100644", (b"[1,2]\n")),
            ("z.png", "100644", (b"\x89PNG\x00\x01\x02\x03")),
        ),
        (
            ("1", "1", "a.json"),
            ("-", "-", "z.png"),
        ),
    ),
    "binary_after_text_plain": Case(
        (
            b"diff --git a/a.json b/a.json\n"
            b"index 6ed63af..3cc0ecb 100644\n"
            b"--- a/a.json\n"
            b"+++ b/a.json\n"
            b"@@ -1 +1 @@\n"
            b"-[1,2]\n"
            b"+[1,2,3]\n"
            b"diff --git a/z.png b/z.png\n"
            b"index 2ee55da..3931181 100644\n"
            b"Binary files a/z.png and b/z.png differ\n"
        ),
        (
            ("a.json", "100644", (b"[1,2]\n")),
            ("z.png", "100644", (b"\x89PNG\x00\x01\x02\x03")),
        ),
        (
            ("1", "1", "a.json"),
            ("-", "-", "z.png"),
        ),
    ),
    "binary_secret": Case(
        (
            b"diff --git a/blob.bin b/blob.bin\n"
            b"new file mode 100644\n"
            b"index 0000000000000000000000000000000000000000..0e34cecfc76d6c55f7ff066d6e6614954eca785d\n"
            b"GIT binary patch\n"
            b"literal 29\n"
            b"kcmWIWW?)DxFSd2`_H>Lg4>a*Lim(hZbTacc4tL=K0CR5#fB*mh\n"
            b"\n"
            b"literal 0\n"
            b"HcmV?d00001\n"
            b"\n"
        ),
        (("r.txt", "100644", (b"r\n")),),
        (("-", "-", "blob.bin"),),
    ),
    "mode_only": Case(
        (b"diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"),
        (("run.sh", "100644", (b"#!/bin/sh\necho hi\n")),),
        (("0", "0", "run.sh"),),
    ),
    "empty_new": Case(
        (b"diff --git a/__init__.py b/__init__.py\nnew file mode 100644\nindex 0000000..e69de29\n"),
        (("r.txt", "100644", (b"r\n")),),
        (("0", "0", "__init__.py"),),
    ),
    "rename_edit": Case(
        (
            b"diff --git a/src/old.txt b/src/new.txt\n"
            b"similarity index 86%\n"
            b"rename from src/old.txt\n"
            b"rename to src/new.txt\n"
            b"index fa2da6e..8476ff2 100644\n"
            b"--- a/src/old.txt\n"
            b"+++ b/src/new.txt\n"
            b"@@ -2,7 +2,7 @@ line 1\n"
            b" line 2\n"
            b" line 3\n"
            b" line 4\n"
            b"-line 5\n"
            b"+line five\n"
            b" line 6\n"
            b" line 7\n"
            b" line 8\n"
        ),
        (
            (
                "src/old.txt",
                "100644",
                (b"line 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\nline 9\nline 10\n"),
            ),
        ),
        (("1", "1", "src/new.txt"),),
    ),
    "deleted": Case(
        (
            b"diff --git a/gone.txt b/gone.txt\n"
            b"deleted file mode 100644\n"
            b"index 422c2b7..0000000\n"
            b"--- a/gone.txt\n"
            b"+++ /dev/null\n"
            b"@@ -1,2 +0,0 @@\n"
            b"-a\n"
            b"-b\n"
        ),
        (
            ("gone.txt", "100644", (b"a\nb\n")),
            ("r.txt", "100644", (b"r\n")),
        ),
        (("0", "2", "gone.txt"),),
    ),
    "b_in_name": Case(
        (
            b"diff --git a/x b/y.txt b/x b/y.txt\n"
            b"index 7898192..6178079 100644\n"
            b"--- a/x b/y.txt\t\n"
            b"+++ b/x b/y.txt\t\n"
            b"@@ -1 +1 @@\n"
            b"-a\n"
            b"+b\n"
        ),
        (("x b/y.txt", "100644", (b"a\n")),),
        (("1", "1", "x b/y.txt"),),
    ),
}
