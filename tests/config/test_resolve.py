"""Which source of a setting wins, and what becomes of bad values."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.config.declared import SETTINGS
from bridgehead.config.resolve import Origin, Resolved, Settings, SettingsFile, resolve


def file(path: str, document: dict[str, Any], *, trusted: bool = True) -> SettingsFile:
    return SettingsFile(path, document, trusted)


def settled(**sources: Any) -> Settings:
    return resolve(
        **{"flags": {}, "environ": {}, "project": None, "user": None, **sources}
    )


URL = {"store": {"url": "x.db"}}


@pytest.mark.parametrize(
    ("sources", "origin"),
    [
        (
            {"flags": {"store.url": "f"}, "environ": {"BRIDGEHEAD_STORE_URL": "e"}},
            Origin.FLAG,
        ),
        (
            {"environ": {"BRIDGEHEAD_STORE_URL": "e"}, "project": file("p", URL)},
            Origin.ENVIRONMENT,
        ),
        ({"project": file("p", URL), "user": file("u", URL)}, Origin.PROJECT),
        ({"user": file("u", URL)}, Origin.USER),
        ({}, Origin.DEFAULT),
    ],
)
def test_the_strongest_source_wins(sources: dict[str, Any], origin: Origin) -> None:
    assert settled(**sources).values["store.url"].origin is origin


def test_a_value_names_the_file_it_came_from() -> None:
    resolved = settled(project=file("/p/bridgehead.toml", URL)).values["store.url"]

    assert resolved == Resolved("x.db", Origin.PROJECT, "/p/bridgehead.toml")


def test_an_untrusted_project_file_cannot_choose_programs_or_urls() -> None:
    settings = settled(
        project=file("p", URL, trusted=False),
        user=file("u", {"store": {"url": "mine.db"}}),
    )

    assert settings.text("store.url") == "mine.db"
    assert (
        "not trusted" in settings.warnings[0] and "config trust" in settings.warnings[0]
    )


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"stroe": {}}, "unknown section [stroe]"),
        ({"store": {"ulr": "x"}}, "unknown setting store.ulr"),
        ({"store": 3}, "[store] must be a table"),
        ({"store": {"url": 3}}, "store.url must be a text"),
        ({"council": {"pass_env": "HOME"}}, "council.pass_env must be a list of texts"),
        ({"council": {"pass_env": [1]}}, "council.pass_env must be a list of texts"),
    ],
)
def test_a_bad_value_is_a_warning_and_the_default_stands(
    document: dict[str, Any], complaint: str
) -> None:
    settings = settled(user=file("u", document))

    assert complaint in settings.warnings[0]
    assert all(
        resolved.origin is Origin.DEFAULT for resolved in settings.values.values()
    )


def test_a_list_in_the_environment_is_separated_by_commas() -> None:
    assert settled(environ={"BRIDGEHEAD_COUNCIL_PASS_ENV": "A, B,,C"}).texts(
        "council.pass_env"
    ) == ("A", "B", "C")


def test_an_agent_is_described_by_the_command_that_starts_it() -> None:
    user = SettingsFile(
        "user",
        {"runtimes": {"goose": {"acp": "goose acp"}, "own": {"acp": "mine"}}},
        True,
    )
    project = {
        "runtimes": {
            "own": {"acp": "theirs"},
            "bad": {"acp": 3},
            "more": {"acp": "x", "path": "y"},
            "n": 1,
        }
    }
    trusted = resolve(
        flags={}, environ={}, project=SettingsFile("project", project, True), user=user
    )
    assert trusted.agents == {"goose": "goose acp", "own": "theirs"}
    assert [warning.split(";")[0] for warning in trusted.warnings] == [
        "project: runtimes.bad must be a text",
        'project: [runtimes.more] must contain only acp = "COMMAND"',
        'project: [runtimes.n] must contain only acp = "COMMAND"',
    ]
    stranger = resolve(
        flags={}, environ={}, project=SettingsFile("project", project, False), user=user
    )
    assert stranger.agents == {"goose": "goose acp", "own": "mine"}
    assert (
        "runtimes.own ignored because the file is not trusted" in stranger.warnings[0]
    )


def test_every_setting_is_declared_once_with_a_sentence() -> None:
    names = [setting.name for setting in SETTINGS]

    assert len(names) == len(set(names))
    assert all(setting.summary for setting in SETTINGS)


def test_the_declared_bus_settings_are_those_the_bus_reads() -> None:
    from bridgehead.bus.bridge.settings import BridgeSettings
    from bridgehead.bus.settings import ServingSettings

    declared = {
        setting.key: setting.default for setting in SETTINGS if setting.section == "bus"
    }
    known = {**_defaults(ServingSettings), **_defaults(BridgeSettings)}

    assert declared == {key: known[key] for key in declared}
    assert set(known) - set(declared) <= UNDECLARED


# Keys of the [bus] table that only programs embedding the bus set.
UNDECLARED = {"reserved_names"}


def _defaults(settings: Any) -> dict[str, Any]:
    import msgspec

    return {field.name: field.default for field in msgspec.structs.fields(settings)}


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e400", "9" * 30])
def test_a_number_is_one_that_can_be_counted_with(text: str) -> None:
    from_variable = settled(environ={"BRIDGEHEAD_WEB_PORT": text})
    from_file = settled(user=file("u", {"web": {"port": float(text)}}))

    for settings in (from_variable, from_file):
        assert settings.values["web.port"].origin is Origin.DEFAULT
        assert "web.port must be a number" in settings.warnings[0]
