"""Programming languages by file extension, and how each one's sources look. Tables only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

LANGUAGE_OF: Final = {
    ".py": "Python",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".js": "JavaScript",
    ".jsx": "JavaScript",
    ".mjs": "JavaScript",
    ".cs": "C#",
    ".java": "Java",
    ".go": "Go",
    ".rs": "Rust",
    ".rb": "Ruby",
    ".php": "PHP",
    ".kt": "Kotlin",
    ".swift": "Swift",
    ".c": "C",
    ".h": "C",
    ".cpp": "C++",
    ".hpp": "C++",
}

# Names that must stay legal in file names (flows §11).
SLUG_OF: Final = {"C#": "csharp", "C++": "cpp"}
LONGEST_SLUG: Final = 60

FENCE_WORD: Final = {
    ".py": "python",
    ".ts": "typescript",
    ".tsx": "tsx",
    ".js": "javascript",
    ".jsx": "jsx",
    ".cs": "csharp",
    ".java": "java",
    ".go": "go",
    ".rs": "rust",
    ".rb": "ruby",
    ".php": "php",
    ".kt": "kotlin",
    ".swift": "swift",
}


def suffix_of(path: str) -> str:
    return PurePosixPath(path).suffix.lower()


def language_of(path: str) -> str | None:
    """The language of a source file; None for everything else."""
    return LANGUAGE_OF.get(suffix_of(path))


def languages_by_files(paths: Iterable[str]) -> list[str]:
    """Languages by number of source files, most first; equals in alphabetical order."""
    count = Counter(language for path in paths if (language := language_of(path)))
    return sorted(count, key=lambda language: (-count[language], language))


def slug(text: str) -> str:
    """`text` as lower-case words joined by hyphens, safe in names of files and templates."""
    named = SLUG_OF.get(text, text)
    words = "".join(char if char.isascii() and char.isalnum() else " " for char in named.lower()).split()
    return "-".join(words)[:LONGEST_SLUG].strip("-")


def is_test(path: str) -> bool:
    """Whether a file holds tests, by the usual names of files and directories."""
    found = PurePosixPath(path)
    name = found.name.lower()
    stem = found.stem
    return (
        any(part.lower() in ("test", "tests", "spec", "specs", "__tests__") for part in found.parts[:-1])
        or name.startswith("test_")
        or stem.lower().endswith(("_test", ".test", ".spec", "_spec"))
        or stem.endswith(("Test", "Tests"))
    )
