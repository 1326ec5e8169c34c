"""Plain values by the core schema of YAML 1.2; everything else is text."""

from __future__ import annotations

import pytest

from bridgehead.rigs.envelope.yaml_core import (
    Scalar,
    is_text_when_plain,
    resolve_plain,
    resolve_tagged,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("~", None),
        ("NULL", None),
        ("true", True),
        ("FALSE", False),
        ("12", 12),
        ("+12", 12),
        ("0123456", 123456),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.", 1),
        (".5", 0.5),
        ("-1.5", -1.5),
        ("1e3", 1000),
        ("12e4567", None),
        (".inf", None),
        ("-.INF", None),
        (".NaN", None),
        ("9" * 400, None),
        ("0x" + "f" * 400, None),
        ("12345678901234567890", 12345678901234567890.0),
    ],
)
def test_yaml_1_2_core_types(text: str, expected: Scalar) -> None:
    value = resolve_plain(text)
    assert value == expected
    assert type(value) is type(expected)
    assert not is_text_when_plain(text)


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "no",
        "on",
        "off",
        "y",
        "nULL",
        "tRUE",
        "2026-05-15",
        "2026-05-15T10:30:00Z",
        "12:30:45",
        "1_000",
        "0b11",
        "0o18",
        "0x",
        "1e",
        "-",
        "+",
        ".",
        "...",
        "---",
        "=",
        "<<",
        "NaN",
        "inf",
        ".infinity",
        "١٢",
        "1234567a",
    ],
)
def test_everything_else_is_text(text: str) -> None:
    assert resolve_plain(text) == text
    assert is_text_when_plain(text)


@pytest.mark.parametrize(
    ("tag", "text", "expected"),
    [
        ("tag:yaml.org,2002:str", "1234567", "1234567"),
        ("tag:yaml.org,2002:int", "12", 12),
        ("tag:yaml.org,2002:int", "twelve", "twelve"),
        ("tag:yaml.org,2002:bool", "true", True),
        ("tag:yaml.org,2002:null", "", None),
        ("!", "12", "12"),
        ("!custom", "12", "12"),
    ],
)
def test_tags_that_do_not_fit_leave_text(tag: str, text: str, expected: Scalar) -> None:
    assert resolve_tagged(tag, text) == expected
