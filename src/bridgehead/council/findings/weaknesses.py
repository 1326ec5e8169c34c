"""Which kind of weakness a text is about: by the CWE it names, or by the words people use for it.

Kinds are coarse on purpose: what one reviewer calls CWE-77 another calls CWE-78, and a third "shell injection".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

# The numbers of a kind, and what it is called.
_KINDS: Final[dict[str, tuple[str, str]]] = {
    "sql": (
        "89 564 943",
        r"\bsql\b.{0,40}\binject|inject\w*.{0,40}\bsql\b|string-built sql|\bsqli\b|sql statement is built",
    ),
    "command": (
        "77 78 88",
        r"(command|shell|os)[ -]inject|shell=true|shell command|command line is built|\bos\.system\b",
    ),
    "code": (
        "94 95 96 1336",
        r"\beval\b|code inject|arbitrary code|run as code|template inject|\bssti\b|\bexec\b\(",
    ),
    "markup": (
        "79 80 83 87 116",
        r"\bxss\b|cross[- ]site script|innerhtml|as html|unescaped html|html inject",
    ),
    "path": (
        "22 23 35 36 73 98",
        r"path traversal|directory traversal|\.\./|zip slip|outside (of )?the (folder|directory)",
    ),
    "deserialisation": (
        "502",
        r"deseriali|unpickl|\bpickle\b|yaml\.load|unserialize|marshal|objectinputstream",
    ),
    "crypto": (
        "326 327 328 759 760 916",
        r"\bmd5\b|\bsha-?1\b|weak (hash|cipher|crypto)|\becb\b|\bdes\b cipher|insecure hash",
    ),
    "random": (
        "330 331 335 338",
        r"predictable (random|token)|insecure random|math\.random|can be guessed|\bprng\b",
    ),
    "certificate": (
        "295 297 322 599",
        r"certificate|verify=false|tls verif|insecureskipverify|rejectunauthorized|host key",
    ),
    "forgery": ("918", r"\bssrf\b|server[- ]side request forgery"),
    "redirect": ("601", r"open redirect|unvalidated redirect|redirected to"),
    "entities": ("611 776 827", r"\bxxe\b|xml (external )?entit|entities of the document"),
    "secret": (
        "798 259 321 522 214",
        r"hard-?coded (secret|password|credential|key|token)|secret is kept|credentials? in (the )?code",
    ),
    "signature": (
        "345 347",
        r"signature (is )?not (checked|verified)|without (checking|verifying) (its|the) signature|unverified token",
    ),
    "swallowed": (
        "252 390 391 396 703 754 755",
        r"swallow|silently ignor|empty catch|bare except|except\W+pass|nothing is done about it",
    ),
    "leak": (
        "401 404 459 772 775",
        r"resource leak|never closed|not closed|file handle|connection leak|leaks? (a |the )?(file|connection)",
    ),
    "race": (
        "362 366 367 662 667 820 833",
        r"race condition|\btoctou\b|deadlock|lock is (kept|held)|not thread[- ]safe",
    ),
    "temporary": ("377 378 379", r"mktemp|temporary file|predictable name"),
    "permission": ("250 269 276 732", r"excessive permission|world[- ]writable|runs? as root|chmod 777"),
    "regexp": ("1333 400 625", r"\bredos\b|catastrophic backtracking|regular expression is built"),
    "pinning": (
        "494 829 1104 1357",
        r"unpinned|not pinned|curl.{0,20}\| ?(ba)?sh|without (checking|verifying) (its|the) (digest|checksum)",
    ),
    "reflection": ("470 915 621", r"mass assignment|unsafe reflection|which method or class"),
    "debug": ("489", r"debug ?= ?true|debug mode|werkzeug debugger"),
}
_NUMBER: Final = re.compile(r"\bCWE[- ]?(\d{1,5})\b", re.IGNORECASE)
_BY_NUMBER: Final = {int(number): kind for kind, (numbers, _) in _KINDS.items() for number in numbers.split()}
_WORDS: Final = {kind: re.compile(words, re.IGNORECASE) for kind, (_, words) in _KINDS.items()}


@lru_cache(maxsize=4096)
def weaknesses(text: str) -> frozenset[str]:
    """The kinds of weakness a text names; numbers count before words."""
    numbered = frozenset(_kinds_of_numbers(_NUMBER.findall(text)))
    return numbered or frozenset(kind for kind, words in _WORDS.items() if words.search(text))


def _kinds_of_numbers(numbers: Iterable[str]) -> Iterable[str]:
    return (_BY_NUMBER.get(int(number), f"CWE-{int(number)}") for number in numbers)
