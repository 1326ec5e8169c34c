from __future__ import annotations

import pytest

from bridgehead.rigs.envelope import names
from bridgehead.rigs.envelope.names import EnvelopePath


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        (set(), "ACK.md"),
        ({"REQUEST.md"}, "ACK.md"),
        ({"ACK.md"}, "ACK-2.md"),
        ({"ACK.md", "ACK-3.md"}, "ACK-2.md"),
        ({"ACK-2.md"}, "ACK.md"),
    ],
)
def test_the_first_free_name_is_taken_and_gaps_are_filled(taken: set[str], expected: str) -> None:
    assert names.next_filename("ACK", taken) == expected


def test_there_is_no_highest_number() -> None:
    taken = {"ACK.md", *(f"ACK-{number}.md" for number in range(2, 1500))}
    assert names.next_filename("ACK", taken) == "ACK-1500.md"


def test_a_relay_turn_is_named_after_the_time_of_its_nonce() -> None:
    assert names.relay_filename("01HZX9K3T7-A4B7C9D2E1") == "RELAY-01HZX9K3T7.md"


def test_a_resolution_file_closes_a_thread_and_a_second_one_does_not() -> None:
    assert names.is_closed({"REQUEST.md", "RESOLUTION.md"})
    assert not names.is_closed({"RESOLUTION-2.md"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("demo-01", True),
        ("dist", False),
        ("node_modules", False),
        (".git", False),
        ("a", False),
        ("Demo", False),
    ],
)
def test_which_directories_are_threads(name: str, expected: bool) -> None:
    assert names.is_thread_directory(name) is expected


@pytest.mark.parametrize(
    ("path", "thread", "envelope"),
    [
        ("demo-01/ACK.md", "demo-01", EnvelopePath("demo-01", "ACK.md")),
        ("demo-01/café.md", "demo-01", EnvelopePath("demo-01", "café.md")),
        ("demo-01/sub/ACK.md", "demo-01", None),
        ("demo-01/notes.txt", "demo-01", None),
        ("dist/ACK.md", "dist", None),
        ("README.md", None, None),
        ("demo-01", None, None),
        (".bridge/config.yaml", None, None),
    ],
)
def test_what_a_path_says(path: str, thread: str | None, envelope: EnvelopePath | None) -> None:
    assert names.thread_of(path) == thread
    assert names.envelope_at(path) == envelope
    assert envelope is None or str(envelope) == path
