"""A patch by its sections: names, renames, and leaving out what may not be shown."""

from __future__ import annotations

import pytest

from bridgehead.council.scope.scope import ScopeFilter, renamed, sections, without_paths
from bridgehead.council.scope.withheld import (
    LARGEST_FILE_BYTES,
    Reason,
    withheld_by_content,
)

RENAME = """\
diff --git a/old.py b/new.py
similarity index 90%
rename from old.py
rename to new.py
@@ -1 +1 @@
-a
+b
"""
BINARY = (
    "diff --git a/logo.png b/logo.png\nBinary files a/logo.png and b/logo.png differ\n"
)
ADDED = "diff --git a/n.py b/n.py\nnew file mode 100644\n--- /dev/null\n+++ b/n.py\n@@ -0,0 +1 @@\n+x\n"
DELETED = "diff --git a/d.py b/d.py\ndeleted file mode 100644\n--- a/d.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
QUOTED = r"""diff --git "a/gr\303\266\303\237e.py" "b/gr\303\266\303\237e.py"
--- "a/gr\303\266\303\237e.py"
+++ "b/gr\303\266\303\237e.py"
@@ -1 +1 @@
-a
+b
"""
PLAIN = "--- one.c\t2026-01-01\n+++ one.c\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize(
    ("patch", "old", "new"),
    [
        (RENAME, "old.py", "new.py"),
        (BINARY, "logo.png", "logo.png"),
        (ADDED, None, "n.py"),
        (DELETED, "d.py", None),
        (QUOTED, "größe.py", "größe.py"),
        (PLAIN, "one.c", "one.c"),
    ],
)
def test_a_section_knows_the_names_of_its_file(
    patch: str, old: str | None, new: str | None
) -> None:
    (section,) = sections(patch)

    assert (section.old, section.new) == (old, new)


def test_what_stands_before_the_first_section_is_dropped() -> None:
    mail = "From: someone\nSubject: [PATCH]\n\n---\n a.py | 2 +-\n\n"

    assert [section.new for section in sections(mail + ADDED + DELETED)] == [
        "n.py",
        None,
    ]


def test_withheld_files_and_binaries_leave_the_rest_untouched() -> None:
    assert (
        without_paths(ADDED + BINARY + RENAME + DELETED, {"old.py"}) == ADDED + DELETED
    )


def test_renames_are_told_by_the_patch() -> None:
    assert renamed(ADDED + RENAME) == {"old.py": "new.py"}


def test_a_line_of_the_content_that_looks_like_a_header_names_no_file() -> None:
    tricky = ADDED.replace("+x\n", "+++ b/other.py\n").replace("+1 @@", "+1 @@")

    assert [section.paths for section in sections(tricky)] == [("n.py",)]


@pytest.mark.parametrize("text", ["", "hello\n", "diff of a thought\n", "--- \n"])
def test_other_text_has_no_sections(text: str) -> None:
    assert sections(text) == []


def test_a_secret_that_was_renamed_is_left_out_under_both_names() -> None:
    for old, new in ((".env", "notes.txt"), ("notes.txt", ".env")):
        kept = ScopeFilter()
        patch = RENAME.replace("old.py", old).replace("new.py", new)
        assert kept.clean_diff(patch + ADDED) == ADDED
        assert {entry.path for entry in kept.left_out} == {old, new}


def test_a_file_beyond_the_limit_is_too_large() -> None:
    assert withheld_by_content(b"x" * LARGEST_FILE_BYTES) is None
    found = withheld_by_content(b"x" * (LARGEST_FILE_BYTES + 1))
    assert found is not None and found[0] is Reason.TOO_LARGE


def test_a_scope_takes_so_much_and_no_more() -> None:
    taken = ScopeFilter()
    taken._room = 5
    for path in ("a.txt", "b.txt", "c.txt"):
        taken.take(path, b"xxx" if path != "c.txt" else b"xx")
    assert list(taken.texts) == ["a.txt", "c.txt"]
    assert [(entry.path, entry.reason) for entry in taken.left_out] == [
        ("b.txt", Reason.TOO_MUCH)
    ]
