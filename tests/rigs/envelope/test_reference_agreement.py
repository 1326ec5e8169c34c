"""Reads and writes the same texts with the reference implementation and compares.

It is looked for in $BRIDGEHEAD_PEERS, or in .venv/npm/node_modules of the repository; without it, or without node,
these tests are skipped. As many texts are tried as the hypothesis profile has examples, from a fixed seed.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from bridgehead.rigs.envelope.body_hash import body_hash, normalise_body
from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.envelope.fields import status_class
from bridgehead.rigs.envelope.frontmatter import ParseFailure, write_envelope
from bridgehead.rigs.envelope.schema import schema_faults
from bridgehead.rigs.envelope.yaml_core import Value

REPOSITORY = Path(__file__).parents[3]
PEERS = Path(
    os.environ.get("BRIDGEHEAD_PEERS") or REPOSITORY / ".venv" / "npm" / "node_modules"
)
PACKAGE = "@mcptoolshop/rig-bridge"
ORACLE = Path(__file__).parent / "reference_oracle.mjs"
COUNT = min(4 * settings().max_examples, 20_000)

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def package() -> Path:
    if not shutil.which("node"):
        pytest.skip("node is not installed, so the reference cannot be asked")
    for folder in (PEERS, PEERS.parent, PEERS / "node_modules"):
        if (folder / PACKAGE / "dist" / "engine").is_dir():
            return folder / PACKAGE
    pytest.skip(
        f"{PACKAGE} is not installed in {PEERS.name}, so the reference cannot be asked"
    )


def ask(package: Path, questions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    command = [shutil.which("node") or "node", str(ORACLE), str(package)]
    done = subprocess.run(
        command, input=lines.encode(), capture_output=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.decode().split("\n") if line]


# Texts


ATOMS = [
    *"aA1e-+.:#?~ \"'\\[]{},&*!|>%@`\t\n\x00\x07\x1b\x7f\x85\u00a0\u2028\u2029\ufeff\uffffé🎯",
    "true",
    "null",
    "0x1F",
]
ATOMS += [
    "12e4567",
    "  ",
    ": ",
    " #",
    "---",
    "...",
    "\n\n",
    "\n ",
    ".inf",
    "2026-05-15",
    "0o17",
    "<<",
    "yes",
]


def texts(seed: int, longest: int) -> list[str]:
    chance = random.Random(seed)
    return [
        "".join(chance.choices(ATOMS, k=chance.randint(0, longest)))
        for _ in range(COUNT)
    ]


CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def has_free_bytes(text: str) -> bool:
    """rigs §3.4 rules 1 and 2: where we may, or by decision do, write other bytes than the reference."""
    awkward_breaks = "\n" in text and (
        text[0] in " \t\n"
        or text.endswith("\n\n")
        or text.removesuffix("\n").endswith((" ", "\t"))
        or CONTROLS.search(text) is not None
    )
    return awkward_breaks or any(
        character in text for character in "\t\x85\u2028\u2029"
    )


def test_fuzz_written_values_are_the_references_bytes_and_are_read_by_it(
    package: Path,
) -> None:
    tried: list[dict[str, Value]] = [
        {"tldr": text, "to": [text]} for text in texts(1, 8)
    ]
    theirs = ask(
        package,
        ({"ask": "write", "frontmatter": fields, "body": "x"} for fields in tried),
    )
    ours = [write_envelope(fields, "x") for fields in tried]
    reread = ask(
        package,
        (
            {"ask": "read", "raw": base64.b64encode(text.encode()).decode()}
            for text in ours
        ),
    )
    for fields, text, written, read in zip(tried, ours, theirs, reread, strict=True):
        assert read.get("frontmatter") == fields
        if not has_free_bytes(str(fields["tldr"])):
            assert text == written["text"]


def test_fuzz_values_the_reference_wrote_are_read_right(package: Path) -> None:
    tried: list[dict[str, Value]] = [
        {"tldr": text, "status": text} for text in texts(2, 8)
    ]
    written = ask(
        package,
        ({"ask": "write", "frontmatter": fields, "body": "x"} for fields in tried),
    )
    theirs = ask(
        package,
        (
            {"ask": "read", "raw": base64.b64encode(w["text"].encode()).decode()}
            for w in written
        ),
    )
    for fields, answer, read in zip(tried, written, theirs, strict=True):
        parsed = parse_envelope(answer["text"].encode())
        assert isinstance(parsed, Envelope)
        if read.get("frontmatter") == fields:  # some values the reference itself loses
            assert parsed.frontmatter == fields


def test_fuzz_bodies_are_normalised_and_hashed_alike(package: Path) -> None:
    bodies = texts(3, 30)
    for body, answer in zip(
        bodies,
        ask(package, ({"ask": "normalise", "body": body} for body in bodies)),
        strict=True,
    ):
        assert normalise_body(body) == answer["body"]
        assert body_hash(body) == answer["hash"]


def test_fuzz_status_classes_are_alike(package: Path) -> None:
    chance = random.Random(4)
    statuses = [
        "".join(
            chance.choices(
                [*"▶⏸🎯✅❌ \ufe0fa", "\u00a0", "\ufeff", "\x1c", "\x85", "\u200b"], k=3
            )
        )
        for _ in range(COUNT)
    ]
    answers = ask(
        package, ({"ask": "statusClass", "status": status} for status in statuses)
    )
    for status, answer in zip(statuses, answers, strict=True):
        assert status_class(status) == answer.get("statusClass")


# Files


VALUES = (
    r"""
mac-m5max|Mac|"mac"|'win'|~||12|2026-05-15|2026-05-15T10:30:00.1+0200|2026-5-1|▶ go|"✅ Done: # ok"|✅done|ACK|ack
demo-01|a|[mac, win]|[mac, Win]|[]|[a1b2c3d, a1b2c3d]|[1234567]|{a: b}|&x mac|*x|!!str 12|!odd 12|"\u25b6 x"
"\ud83c\udfaf x"|\ud83c|"\q"|>-|true|1e3|.5|a: b|a #b|a#b|- a|"unfinished|'it''s'|"a" b|@x|%x
""".strip()
    .replace("\n", "|")
    .split("|")
)
VALUES += ["a\tb", "a\u2028b", "\u0085", "|-\n  one\n\n   two"]
NAMES = [
    "from",
    "to",
    "date",
    "status",
    "type",
    "thread",
    "display_name",
    "tldr",
    "references",
    "body_hash",
    "in_reply_to",
    "nonce",
    "odd",
]
ENDINGS = [
    "",
    "",
    "",
    "",
    " ",
    " # remark",
    "\n  more",
    "\n  - mac",
    "\n- mac",
    "\n",
    "\n# remark",
    "\n\tx",
]


def files(seed: int) -> list[bytes]:
    chance = random.Random(seed)
    found = []
    for _ in range(COUNT):
        names = chance.sample(NAMES, chance.randint(1, 7))
        if chance.random() < 0.1:
            names.append(names[0])
        lines = [
            f"{name}: {chance.choice(VALUES)}{chance.choice(ENDINGS)}" for name in names
        ]
        end = chance.choice(["\n", "\n", "\n", "\r\n", "\r"])
        text = "\n".join(["---", *lines, "---", "body  ", ""]).replace("\n", end)
        found.append(
            chance.choice([b"", b"", b"\xef\xbb\xbf"])
            + text.encode()
            + chance.choice([b"", b"\xff\xc3"])
        )
    return found


def as_javascript(value: Any) -> Any:
    """Numbers are doubles; a lone surrogate, which we replace on reading, is left as it is there."""
    if isinstance(value, dict):
        return {key: as_javascript(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_javascript(item) for item in value]
    return (
        float(value)
        if isinstance(value, int | float) and not isinstance(value, bool)
        else value
    )


def named_paths(paths: list[str]) -> set[str]:
    """The vectors' set of paths: a list is not named when one of its items is."""
    found = set(paths)
    return {
        path
        for path in found
        if path == "/" or not any(other.startswith(f"{path}/") for other in found)
    }


def test_fuzz_files_are_read_and_judged_alike(package: Path) -> None:
    raws = files(5)
    answers = ask(
        package,
        ({"ask": "read", "raw": base64.b64encode(raw).decode()} for raw in raws),
    )
    read_by_both = 0
    for raw, answer in zip(raws, answers, strict=True):
        parsed = parse_envelope(raw)
        assert isinstance(parsed, ParseFailure) is ("error" in answer), (
            raw,
            parsed,
            answer,
        )
        if isinstance(parsed, ParseFailure):
            continue
        read_by_both += 1
        assert as_javascript(parsed.frontmatter) == as_javascript(
            answer["frontmatter"]
        ), raw
        assert parsed.body == answer["body"]
        assert body_hash(parsed.body) == answer["hash"]
        assert {
            fault.path for fault in schema_faults(parsed.frontmatter)
        } == named_paths(answer["paths"]), raw
    assert read_by_both > COUNT // 10
