"""The table of what an untrusted tree may decide, walked key by key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridgehead.config.declared import SETTINGS, Kind, Setting, Value
from bridgehead.config.files import TrustedFiles, load_settings
from bridgehead.config.places import Places, find_places
from bridgehead.config.resolve import Settings
from bridgehead.contract.settings_trust import PROJECT_FILE_KEYS, Freedom

TRUSTED_ONLY = [one for one in SETTINGS if one.freedom is Freedom.TRUSTED_ONLY]
ONLY_LOWER = [one for one in SETTINGS if one.freedom is Freedom.ONLY_LOWER]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "project").mkdir()
    (tmp_path / "home" / "config").mkdir(parents=True)
    return find_places(
        tmp_path / "project", {"BRIDGEHEAD_HOME": str(tmp_path / "home")}
    )


def loaded(places: Places) -> Settings:
    return load_settings(places, environ={}, flags={})


def asks_for(declared: Setting, value: Value) -> str:
    literal = list(value) if isinstance(value, tuple) else value
    return f"[{declared.section}]\n{declared.key} = {json.dumps(literal)}\n"


def another(declared: Setting) -> Value:
    match declared.kind:
        case Kind.FLAG:
            return not declared.default
        case Kind.NUMBER:
            assert isinstance(declared.default, int)
            return declared.default + 1
        case Kind.TEXTS:
            return ("something",)
        case Kind.TEXT:
            return "something"


def laxer(declared: Setting) -> tuple[Value, Value]:
    """Return what the user says, and something less strict."""
    match declared.kind:
        case Kind.FLAG:
            return True, False
        case Kind.NUMBER:
            return 3, 4
        case Kind.TEXTS:
            return ("mine",), ()
        case Kind.TEXT:
            return declared.choices[-1], declared.choices[0]


def stricter(declared: Setting) -> tuple[Value, Value, Value]:
    """Return what the user says, something stricter, and what comes of both."""
    match declared.kind:
        case Kind.FLAG:
            return False, True, True
        case Kind.NUMBER:
            return 3, 2, 2
        case Kind.TEXTS:
            return ("mine",), ("theirs",), ("mine", "theirs")
        case Kind.TEXT:
            return declared.choices[0], declared.choices[-1], declared.choices[-1]


def test_every_setting_has_its_row_in_the_table() -> None:
    assert [one.name for one in SETTINGS if one.name not in PROJECT_FILE_KEYS] == []
    assert len(PROJECT_FILE_KEYS) == len(SETTINGS)
    assert all(one.freedom is PROJECT_FILE_KEYS[one.name] for one in SETTINGS)
    assert Freedom.FREE not in PROJECT_FILE_KEYS.values()
    lower = {one.name for one in ONLY_LOWER if not one.key.startswith("max_")}
    assert lower == {
        "council.require",
        "council.unread",
        "flows.request_mib",
        "flows.response_mib",
        "flows.state_mib",
        "rigs.require_council",
        "bus.assistant_timeout_s",
        "bus.assistant_later_s",
        "bus.assistant_memory",
        "bus.hook_wait_s",
        "bus.grace_s",
        "bus.hop_limit",
    }


@pytest.mark.parametrize("declared", TRUSTED_ONLY, ids=lambda one: one.name)
def test_a_trusted_only_setting_of_an_untrusted_tree_has_no_effect_and_is_named(
    places: Places, declared: Setting
) -> None:
    before = loaded(places).values
    places.project_file.write_text(asks_for(declared, another(declared)))

    ignored = loaded(places)
    TrustedFiles(places.trust_file).add(places.project_file)
    heard = loaded(places)

    assert ignored.values == before
    (warning,) = ignored.warnings
    assert declared.name in warning and "bridgehead config trust" in warning
    assert heard.values[declared.name].value == another(declared)
    assert heard.warnings == ()


@pytest.mark.parametrize("declared", ONLY_LOWER, ids=lambda one: one.name)
def test_an_untrusted_tree_is_never_less_strict_than_the_user(
    places: Places, declared: Setting
) -> None:
    mine, theirs = laxer(declared)
    places.user_file.write_text(asks_for(declared, mine))
    before = loaded(places).values[declared.name].value
    places.project_file.write_text(asks_for(declared, theirs))

    settings = loaded(places)

    assert settings.values[declared.name].value == before == mine
    named = [one for one in settings.warnings if declared.name in one]
    assert bool(named) == (declared.kind is not Kind.TEXTS)
    assert all("bridgehead config trust" in one for one in named)


@pytest.mark.parametrize("declared", ONLY_LOWER, ids=lambda one: one.name)
def test_an_untrusted_tree_may_be_stricter_than_the_user(
    places: Places, declared: Setting
) -> None:
    mine, theirs, both = stricter(declared)
    places.user_file.write_text(asks_for(declared, mine))
    places.project_file.write_text(asks_for(declared, theirs))

    settings = loaded(places)

    assert settings.values[declared.name].value == both
    assert settings.warnings == ()


def test_a_limit_below_zero_is_no_lower_limit(places: Places) -> None:
    places.project_file.write_text("[bus]\nmax_held = -1\n")

    settings = loaded(places)

    assert settings.number("bus.max_held") == 256
    assert "bus.max_held ignored" in settings.warnings[0]


def test_a_word_that_is_no_choice_is_refused_in_words(places: Places) -> None:
    places.user_file.write_text('[council]\nunread = "whatever"\n')

    settings = loaded(places)

    assert settings.text("council.unread") == "refuse"
    assert (
        "council.unread must be say or refuse, not 'whatever'" in settings.warnings[0]
    )
