"""Words of a command line: the common flags, and those of the flow's own function."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bridgehead.cli.flows.run_resume import run_quickly
from bridgehead.errors import NotFound
from bridgehead.flows import Flow
from bridgehead.flows.definition import (
    defaults_of,
    options_of,
    read_options,
    typed_settings,
)
from bridgehead.flows.discovery import find_flow
from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.operations.run import split_words
from bridgehead.flows.script import usage_of
from bridgehead.flows.template_create import template_create
from bridgehead.flows.template_create.choices import OPTIONS

if TYPE_CHECKING:
    from somewhere import OnlyForTheTypeChecker


def release(
    ctx: Any,
    tag: str,
    count: int = 2,
    *,
    dry_run: bool = False,
    names: list[str] | None = None,
    ratio: float = 0.5,
) -> None:
    """Only its signature matters."""


RELEASE = Flow("release", "1", release)


def test_parameters_are_options() -> None:
    words = ["--tag", "v1", "--count=3", "--dry-run", "--names", "a", "--names", "b"]
    assert read_options(RELEASE, words) == {
        "tag": "v1",
        "count": 3,
        "dry_run": True,
        "names": ["a", "b"],
    }
    assert defaults_of(RELEASE) == {
        "count": 2,
        "dry_run": False,
        "names": None,
        "ratio": 0.5,
    }
    assert read_options(RELEASE, ["--dry-run=no"]) == {"dry_run": False}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--nonsense", "x"], "has no option --nonsense"),
        (["v1"], "is not an option"),
        (["--count", "many"], "must be a number"),
        (["--tag"], "needs a value"),
        (["--dry-run=perhaps"], "must be yes or no"),
    ],
)
def test_words_that_fit_no_parameter_are_refused(
    words: list[str], complaint: str
) -> None:
    with pytest.raises(FlowMistake, match=complaint):
        read_options(RELEASE, words)


def test_annotations_that_only_a_type_checker_can_read_do_no_harm() -> None:
    def work(
        ctx: OnlyForTheTypeChecker, count: int, other: OnlyForTheTypeChecker = None
    ) -> None:
        """Only its signature matters."""

    flow = Flow("work", "1", work)
    assert read_options(flow, ["--count", "3"]) == {"count": 3}
    assert typed_settings(flow, {"count": 3, "other": [1]}) == {
        "count": 3,
        "other": [1],
    }
    assert list(options_of(flow)) == ["--count", "--other"]


def test_common_flags_are_taken_out_wherever_they_stand() -> None:
    line = split_words(
        ["--tag", "v1", "--resume", "--wait", "5", "--dir=/srv", "--", "--fresh"]
    )
    assert line.flags == {"resume": True, "wait_seconds": 5.0, "root": Path("/srv")}
    assert line.words == ("--tag", "v1", "--fresh")
    request = split_words(
        ["--max-retries", "0", "--on-missing-agent", "stop"]
    ).request()
    assert (request.options.max_retries, request.options.missing_agent_falls_back) == (
        0,
        False,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--wait"],
        ["--wait", "x"],
        ["--wait", "-1"],
        ["--wait", "nan"],
        ["--max-retries", "-1"],
        ["--on-missing-agent", "x"],
    ],
)
def test_common_flags_with_unfit_values_are_refused(words: list[str]) -> None:
    with pytest.raises(FlowMistake):
        split_words(words).request()


SOURCE = """
from bridgehead.flows import flow
import neighbour

@flow("first")
def first(ctx): return neighbour.VALUE

@flow("second")
def second(ctx): return 2

def plain(ctx): return 3
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("VALUE = 1")
    path = tmp_path / "two_flows.py"
    path.write_text(SOURCE)
    return path


def test_a_flow_in_a_file_is_found_again_from_anywhere(
    source: Path, tmp_path: Path
) -> None:
    flow, found_as = find_flow("two_flows.py:first", tmp_path)
    assert (flow.name, flow.function(None)) == ("first", 1)
    assert find_flow(found_as, Path("/"))[0].name == "first"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("two_flows.py", "contains 2 flows"),
        ("two_flows.py:plain", "is not a flow"),
        ("two_flows.py:missing", "is not a flow"),
        ("missing.py:x", "no file"),
        ("missing", "no flow 'missing'"),
        ("broken.py", "ZeroDivisionError"),
    ],
)
def test_what_is_no_flow_is_said_so(
    source: Path, tmp_path: Path, name: str, complaint: str
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises((FlowMistake, NotFound), match=complaint):
        find_flow(name, tmp_path)


def test_a_file_with_one_flow_needs_no_function(tmp_path: Path) -> None:
    (tmp_path / "single.py").write_text(
        "from bridgehead.flows import flow\n@flow('solo')\ndef f(ctx): ..."
    )
    assert find_flow("single.py", tmp_path)[0].name == "solo"


def test_the_built_in_ask_is_found_by_name(tmp_path: Path) -> None:
    assert find_flow("ask", tmp_path)[0].name == "ask"


@pytest.mark.parametrize("name", ["", "Upper", "a b", "-x", "a" * 65])
def test_a_name_that_would_confuse_is_no_name_for_a_flow(name: str) -> None:
    with pytest.raises(FlowMistake):
        Flow(name, "1", release)


def test_help_for_a_flow_names_its_own_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = usage_of(template_create)
    for flag, option in OPTIONS.items():
        assert f"  {flag}" in told and option.summary in told
    for words in (
        ["template-create", "--help"],
        ["template-create", "--validate", "-h"],
    ):
        assert run_quickly("run", words) == 0
        assert capsys.readouterr().out == told
