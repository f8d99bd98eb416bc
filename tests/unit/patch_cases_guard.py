"""More patches, most of them made to get past a guard: exact bytes, as in `patch_cases`."""

from __future__ import annotations

from tests.unit.patch_cases import KEY, Case

_K = KEY.encode()

GUARD_CASES: dict[str, Case] = {
    "quoted_guard": Case(
        (
            b'diff --git "a/.github/workflows/d\\303\\251ploy.yml" "b/.github/workflows/d\\303\\251ploy.yml"\n'  # noqa: E501
            b"index 67dd8c6..8553181 100644\n"
            b'--- "a/.github/workflows/d\\303\\251ploy.yml"\n'
            b'+++ "b/.github/workflows/d\\303\\251ploy.yml"\n'
            b"@@ -1 +1,2 @@\n"
            b" name: d\n"
            b"+on: push\n"
        ),
        ((".github/workflows/déploy.yml", "100644", (b"name: d\n")),),
        (("1", "0", ".github/workflows/déploy.yml"),),
    ),
    "symlink_new": Case(
        (
            b"diff --git a/link.txt b/link.txt\n"
            b"new file mode 120000\n"
            b"index 0000000..91bf449\n"
            b"--- /dev/null\n"
            b"+++ b/link.txt\n"
            b"@@ -0,0 +1 @@\n"
            b"+../../../etc/passwd\n"
            b"\\ No newline at end of file\n"
        ),
        (("r.txt", "100644", (b"r\n")),),
        (("1", "0", "link.txt"),),
    ),
    "typechange": Case(
        (
            b"diff --git a/settings.ini b/settings.ini\n"
            b"deleted file mode 100644\n"
            b"index 7f7211e..0000000\n"
            b"--- a/settings.ini\n"
            b"+++ /dev/null\n"
            b"@@ -1 +0,0 @@\n"
            b"-key = 1\n"
            b"diff --git a/settings.ini b/settings.ini\n"
            b"new file mode 120000\n"
            b"index 0000000..e1e5250\n"
            b"--- /dev/null\n"
            b"+++ b/settings.ini\n"
            b"@@ -0,0 +1 @@\n"
            b"+/home/someone/.ssh/id_rsa\n"
            b"\\ No newline at end of file\n"
        ),
        (("settings.ini", "100644", (b"key = 1\n")),),
        (
            ("0", "1", "settings.ini"),
            ("1", "0", "settings.ini"),
        ),
    ),
    "submodule": Case(
        (
            b"diff --git a/vendor/lib b/vendor/lib\n"
            b"index f12ca61..e8a8581 160000\n"
            b"--- a/vendor/lib\n"
            b"+++ b/vendor/lib\n"
            b"@@ -1 +1 @@\n"
            b"-Subproject commit f12ca610dfd916fd28ace453c1153abd494b9e7d\n"
            b"+Subproject commit e8a8581c36bf4b321aa1e33d0178896d5096aca0\n"
        ),
        (
            ("r.txt", "100644", (b"r\n")),
            ("vendor/lib", "160000", (b"f12ca610dfd916fd28ace453c1153abd494b9e7d")),
        ),
        (("1", "1", "vendor/lib"),),
    ),
    "submodule_add": Case(
        (
            b"diff --git a/vendor/evil b/vendor/evil\n"
            b"new file mode 160000\n"
            b"index 0000000..e8a8581\n"
            b"--- /dev/null\n"
            b"+++ b/vendor/evil\n"
            b"@@ -0,0 +1 @@\n"
            b"+Subproject commit e8a8581c36bf4b321aa1e33d0178896d5096aca0\n"
        ),
        (("r.txt", "100644", (b"r\n")),),
        (("1", "0", "vendor/evil"),),
    ),
    "traversal": Case(
        (
            b"diff --git a/../../../etc/cron.d/x b/../../../etc/cron.d/x\n"
            b"new file mode 100644\n"
            b"index 0000000..d95f3ad\n"
            b"--- /dev/null\n"
            b"+++ b/../../../etc/cron.d/x\n"
            b"@@ -0,0 +1 @@\n"
            b"+content\n"
        ),
        (),
        (("1", "0", "../../../etc/cron.d/x"),),
    ),
    "absolute": Case(
        (b"--- /dev/null\n+++ /etc/cron.d/x\n@@ -0,0 +1 @@\n+content\n"),
        (),
        (("1", "0", "etc/cron.d/x"),),
    ),
    "dotgit": Case(
        (
            b"diff --git a/.git/hooks/pre-commit b/.git/hooks/pre-commit\n"
            b"new file mode 100755\n"
            b"index 0000000..d95f3ad\n"
            b"--- /dev/null\n"
            b"+++ b/.git/hooks/pre-commit\n"
            b"@@ -0,0 +1 @@\n"
            b"+content\n"
        ),
        (),
        (("1", "0", ".git/hooks/pre-commit"),),
    ),
    "caseguard": Case(
        (
            b"diff --git a/.GitHub/Workflows/ci.yml b/.GitHub/Workflows/ci.yml\n"
            b"new file mode 100644\n"
            b"index 0000000..b83836e\n"
            b"--- /dev/null\n"
            b"+++ b/.GitHub/Workflows/ci.yml\n"
            b"@@ -0,0 +1 @@\n"
            b"+on: push\n"
        ),
        (("r.txt", "100644", (b"r\n")),),
        (("1", "0", ".GitHub/Workflows/ci.yml"),),
    ),
    "dot_segment": Case(
        (
            b"diff --git a/.github/./workflows/ci.yml b/.github/./workflows/ci.yml\n"
            b"index 4a79684..d6de98a 100644\n"
            b"--- a/.github/./workflows/ci.yml\n"
            b"+++ b/.github/./workflows/ci.yml\n"
            b"@@ -1,2 +1,2 @@\n"
            b" name: ci\n"
            b"-on: push\n"
            b"+on: [push, pull_request_target]\n"
        ),
        (
            (".github/workflows/ci.yml", "100644", (b"name: ci\non: push\n")),
            ("README.md", "100644", (b"hello\n")),
        ),
        (("1", "1", ".github/./workflows/ci.yml"),),
    ),
    "dbl_slash": Case(
        (
            b"diff --git a/.github//workflows/ci.yml b/.github//workflows/ci.yml\n"
            b"index 4a79684..d6de98a 100644\n"
            b"--- a/.github//workflows/ci.yml\n"
            b"+++ b/.github//workflows/ci.yml\n"
            b"@@ -1,2 +1,2 @@\n"
            b" name: ci\n"
            b"-on: push\n"
            b"+on: [push, pull_request_target]\n"
        ),
        (
            (".github/workflows/ci.yml", "100644", (b"name: ci\non: push\n")),
            ("README.md", "100644", (b"hello\n")),
        ),
        (("1", "1", ".github/workflows/ci.yml"),),
    ),
    "other_prefix": Case(
        (
            b"diff --git c/.github/workflows/ci.yml i/.github/workflows/ci.yml\n"
            b"index 4a79684..d6de98a 100644\n"
            b"--- c/.github/workflows/ci.yml\n"
            b"+++ i/.github/workflows/ci.yml\n"
            b"@@ -1,2 +1,2 @@\n"
            b" name: ci\n"
            b"-on: push\n"
            b"+on: [push, pull_request_target]\n"
        ),
        (
            (".github/workflows/ci.yml", "100644", (b"name: ci\non: push\n")),
            ("README.md", "100644", (b"hello\n")),
        ),
        (("1", "1", ".github/workflows/ci.yml"),),
    ),
    "codex_format": Case(
        (
            b"*** Begin Patch\n"
            b"*** Update File: .github/workflows/ci.yml\n"
            b"@@\n"
            b"-on: push\n"
            b"+on: [push, pull_request_target]\n"
            b"*** End Patch\n"
        ),
        (
            (".github/workflows/ci.yml", "100644", (b"name: ci\non: push\n")),
            ("README.md", "100644", (b"hello\n")),
        ),
        (),
    ),
    "short_hunk": Case(
        (
            b"diff --git a/README.md b/README.md\n"
            b"index ce01362..4effa19 100644\n"
            b"--- a/README.md\n"
            b"+++ b/README.md\n"
            b"@@ -1,5 +1,5 @@\n"
            b"-hello\n"
            b"+hello!\n"
        ),
        (
            (".github/workflows/ci.yml", "100644", (b"name: ci\non: push\n")),
            ("README.md", "100644", (b"hello\n")),
        ),
        (),
    ),
    "secret_removed": Case(
        (
            (
                b"diff --git a/s.py b/s.py\n"
                b"index 34b648e..53ffdec 100644\n"
                b"--- a/s.py\n"
                b"+++ b/s.py\n"
                b"@@ -1,3 +1,3 @@\n"
                b'-k = "'
            )
            + _K
            + (b'"\n+k = os.environ["K"]\n b = 2\n c = 3\n')
        ),
        (("s.py", "100644", ((b'k = "') + _K + (b'"\nb = 2\nc = 3\n'))),),
        (("1", "1", "s.py"),),
    ),
    "secret_context": Case(
        (
            (
                b"diff --git a/s.py b/s.py\n"
                b"index 34b648e..ca53737 100644\n"
                b"--- a/s.py\n"
                b"+++ b/s.py\n"
                b"@@ -1,3 +1,3 @@\n"
                b' k = "'
            )
            + _K
            + (b'"\n b = 2\n-c = 3\n+c = 4\n')
        ),
        (("s.py", "100644", ((b'k = "') + _K + (b'"\nb = 2\nc = 3\n'))),),
        (("1", "1", "s.py"),),
    ),
    "secret_added": Case(
        (
            (
                b"diff --git a/s.py b/s.py\n"
                b"index a678603..ffcf015 100644\n"
                b"--- a/s.py\n"
                b"+++ b/s.py\n"
                b"@@ -1 +1,2 @@\n"
                b" b = 2\n"
                b'+k = "'
            )
            + _K
            + (b'"\n')
        ),
        (("s.py", "100644", (b"b = 2\n")),),
        (("1", "0", "s.py"),),
    ),
    "secret_allow": Case(
        (
            (
                b"diff --git a/s.py b/s.py\n"
                b"index a678603..21b2fdf 100644\n"
                b"--- a/s.py\n"
                b"+++ b/s.py\n"
                b"@@ -1 +1,2 @@\n"
                b" b = 2\n"
                b'+k = "'
            )
            + _K
            + (b'"  # gitleaks:allow  # pragma: allowlist secret\n')
        ),
        (("s.py", "100644", (b"b = 2\n")),),
        (("1", "0", "s.py"),),
    ),
    "scanner_config": Case(
        (
            b"diff --git a/.gitleaks.toml b/.gitleaks.toml\n"
            b"index acbb16e..751f215 100644\n"
            b"--- a/.gitleaks.toml\n"
            b"+++ b/.gitleaks.toml\n"
            b"@@ -1 +1,3 @@\n"
            b' title = "x"\n'
            b"+[allowlist]\n"
            b'+paths = [".*"]\n'
        ),
        (
            (".gitleaks.toml", "100644", (b'title = "x"\n')),
            ("s.py", "100644", (b"b = 2\n")),
        ),
        (("2", "0", ".gitleaks.toml"),),
    ),
    "bidi": Case(
        (
            b"diff --git a/r.py b/r.py\n"
            b"index b2f5147..552029f 100644\n"
            b"--- a/r.py\n"
            b"+++ b/r.py\n"
            b"@@ -1 +1,3 @@\n"
            b' role = "user"\n'
            b'+if role != "user\xe2\x80\xae \xe2\x81\xa6# check admin\xe2\x81\xa9 \xe2\x81\xa6":\n'
            b"+    grant()\n"
        ),
        (("r.py", "100644", (b'role = "user"\n')),),
        (("2", "0", "r.py"),),
    ),
    "zwsp": Case(
        (
            b"diff --git a/z.py b/z.py\n"
            b"index 7d4290a..91058b4 100644\n"
            b"--- a/z.py\n"
            b"+++ b/z.py\n"
            b"@@ -1 +1,2 @@\n"
            b" x = 1\n"
            b"+adm\xe2\x80\x8bin = True\n"
        ),
        (("z.py", "100644", (b"x = 1\n")),),
        (("1", "0", "z.py"),),
    ),
    "moved": Case(
        (
            b"diff --git a/f.txt b/f.txt\n"
            b"index 01e79c3..d8eb098 100644\n"
            b"--- a/f.txt\n"
            b"+++ b/f.txt\n"
            b"@@ -1,3 +1,3 @@\n"
            b" 1\n"
            b"-2\n"
            b"+two\n"
            b" 3\n"
        ),
        (("f.txt", "100644", (b"1\n2\n3\n")),),
        (("1", "1", "f.txt"),),
    ),
}
