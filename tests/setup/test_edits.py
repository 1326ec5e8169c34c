"""Settings files of others, edited in place: nothing else in them changes, and the way back is exact."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.errors import UserError
from bridgehead.setup.hosts import BEGIN, END, with_block, without_block
from bridgehead.setup.planning import Hunk
from bridgehead.setup.server_entry import REGISTRATIONS, Launch

LAUNCH = Launch("/opt/bin/bridgehead")
WITH_COMMENTS = """\
// mine, do not touch
{
    "theme": "dark", /* really */
    "mcp": {
        // the other one
        "files": {"type": "local", "command": ["x"]},
    },
}
"""

keys = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=8)
documents = st.dictionaries(
    keys | st.sampled_from(["mcpServers", "mcp"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=5,
)


@pytest.mark.parametrize("host", ["claude", "gemini", "opencode"])
@given(
    document=documents,
    indent=st.sampled_from([None, 2, 4, "\t"]),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_any_json_file_gets_the_server_and_nothing_else_and_is_restored_exactly(
    host: str, document: dict[str, Any], indent: int | str | None, newline: str
) -> None:
    before = (
        json.dumps(document, indent=indent, ensure_ascii=False).replace("\n", newline)
        + newline
    )
    name = "mcp" if host == "opencode" else "mcpServers"
    registration = REGISTRATIONS[host]
    if not isinstance(document.get(name, {}), dict):
        with pytest.raises(UserError):
            registration.add(before, LAUNCH)
        return

    after = registration.add(before, LAUNCH)

    loaded = json.loads(after)
    assert loaded[name].pop("bridgehead")
    assert loaded == {name: {}, **document}
    assert registration.add(after, LAUNCH) == after, "doing it twice changes nothing"
    assert Hunk.between(before, after).taken_back(after) == before
    assert json.loads(registration.remove(after)) == loaded


def test_comments_and_trailing_commas_stay_where_they_are_allowed_and_are_refused_where_not() -> (
    None
):
    after = REGISTRATIONS["opencode"].add(WITH_COMMENTS, LAUNCH)

    assert after.startswith(WITH_COMMENTS[: WITH_COMMENTS.index('["x"]}')])
    assert '"bridgehead": {' in after
    assert REGISTRATIONS["opencode"].add(after, LAUNCH) == after
    assert Hunk.between(WITH_COMMENTS, after).taken_back(after) == WITH_COMMENTS
    strict = '{\n  "a": 1 // about a\n}\n'
    assert REGISTRATIONS["gemini"].remove(
        REGISTRATIONS["gemini"].add(strict, LAUNCH)
    ) == ('{\n  "a": 1, // about a\n  "mcpServers": {\n  }\n}\n')
    with pytest.raises(UserError, match="line 1: comments are not allowed"):
        REGISTRATIONS["claude"].add(WITH_COMMENTS, LAUNCH)


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("claude", '{"mcpServers": {}'),
        ("claude", '{"a": 1,}'),
        ("claude", '{"a": 1 "b": 2}'),
        ("claude", "[]"),
        ("claude", '{"mcpServers": []}'),
        ("claude", '{"mcpServers": {}, "mcpServers": {}}'),
        ("claude", "\ufeff{}"),
        ("claude", "{} {}"),
        ("claude", "{\"a\": 'b'}"),
        ("gemini", "{" + '"a": {' * 200),
        ("gemini", '{"a": 1 /* never closed'),
        ("codex", "mcp_servers = 1\n"),
        ("codex", "[mcp_servers\n"),
        ("codex", "[mcp_servers]\nbridgehead = 1\n"),
    ],
)
def test_a_file_that_cannot_be_read_safely_is_left_alone(host: str, text: str) -> None:
    with pytest.raises(UserError) as refused:
        REGISTRATIONS[host].add(text, LAUNCH)

    assert refused.value.message


CODEX = """\
# my settings
model = "gpt-5.5"   # the good one

[mcp_servers.files]
command = "x"
args = [ "a",
         "b" ]

[mcp_servers.bridgehead]
command = "old"
tool_timeout_sec = 7
mine = true

[tui]
theme = "dark"
"""


def test_codex_settings_keep_their_formatting_and_what_the_user_decided() -> None:
    after = REGISTRATIONS["codex"].add(CODEX, LAUNCH)

    entry = tomllib.loads(after)["mcp_servers"]["bridgehead"]
    assert entry == {
        "command": "/opt/bin/bridgehead",
        "tool_timeout_sec": 7,
        "mine": True,
        "args": ["mcp"],
    }
    assert (
        after.replace('"/opt/bin/bridgehead"', '"old"').replace('args = ["mcp"]\n', "")
        == CODEX
    )
    assert REGISTRATIONS["codex"].add(after, LAUNCH) == after
    assert Hunk.between(CODEX, after).taken_back(after) == CODEX
    assert (
        "bridgehead"
        not in tomllib.loads(REGISTRATIONS["codex"].remove(after))["mcp_servers"]
    )


@pytest.mark.parametrize("before", ["", "# Mine\n", "# Mine\n\ntext without end"])
def test_the_block_stands_between_its_markers_and_goes_without_a_trace(
    before: str,
) -> None:
    after = with_block(before, "ours")

    assert after.startswith(before)
    assert with_block(after, "ours") == after
    assert with_block(after, "newer") == after.replace("ours", "newer")
    assert (
        Hunk.between(before, after).taken_back(f"{after}more of mine\n")
        == f"{before}more of mine\n"
    )
    assert "ours" not in without_block(after)


@pytest.mark.parametrize(
    "text", [BEGIN, END, f"{END}\n{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"]
)
def test_markers_that_are_no_pair_are_not_guessed_about(text: str) -> None:
    with pytest.raises(UserError, match="must appear once each"):
        with_block(text, "ours")
