"""What the documents show is what happens."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.console_blocks import Step, environment, matches, run, steps
from tools.docs_hooks import on_page_markdown

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
SCRIPTS = Path(sys.executable).parent
COMMANDS = dict(
    re.findall(
        r"^## (bridgehead[^\n]*)\n\n```text\n(.*?)```",
        (REPOSITORY / "docs/reference/cli.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
)


def named(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


@pytest.mark.parametrize(
    "path",
    [path for path in DOCUMENTS if steps(path.read_text(encoding="utf-8"))],
    ids=named,
)
def test_the_commands_of_a_document_do_what_it_shows(
    path: Path, tmp_path: Path
) -> None:
    commands = steps(path.read_text(encoding="utf-8"))
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()

    results = run(commands, folder, environment(home, SCRIPTS))

    for step, result in zip(commands, results, strict=True):
        assert result.code == step.exit_code, f"$ {step.command}\n{result.output}"
        assert matches(step.expected, result.output), (
            f"$ {step.command}\n{result.output}"
        )


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_links_inside_the_documents_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text)

    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_the_site_has_a_place_for_every_page() -> None:
    text = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {named(path).removeprefix("docs/") for path in DOCUMENTS[1:]}

    assert set(re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", text, re.MULTILINE)) == pages


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_blocks_reach_the_site_with_no_more_than_their_language(path: Path) -> None:
    """With anything else behind it the site takes a block for prose, and what follows for a block."""
    address = named(path).removeprefix("docs/").replace("README.md", "index.md")
    text = on_page_markdown(
        path.read_text(encoding="utf-8"),
        page=SimpleNamespace(file=SimpleNamespace(src_uri=address)),
    )

    assert [
        line
        for line in re.findall(r"^ *```.*$", text, re.MULTILINE)
        if not re.fullmatch(r" *```\w*", line)
    ] == []


def test_a_broken_link_fails_the_site() -> None:
    """`--quiet` drops the warnings before `--strict` counts them."""
    [build] = re.findall(
        r"mkdocs build.*", (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    )

    assert "--strict" in build and "--quiet" not in build


@pytest.mark.parametrize(
    "row",
    re.findall(
        r"^\| .* \| (`bridgehead.*) \|$", DOCUMENTS[0].read_text("utf-8"), re.MULTILINE
    ),
)
def test_the_commands_of_the_readme_s_table_exist(row: str) -> None:
    for command in re.findall(r"`([^`]+)`", row):
        words = [word for word in command.split() if not word.startswith("-")]
        known = next(words[:end] for end in (3, 2) if " ".join(words[:end]) in COMMANDS)
        options = [word for word in command.split() if word.startswith("--")]
        assert all(option in COMMANDS[" ".join(known)] for option in options), command


def test_expected_output_may_leave_out_parts() -> None:
    [step] = steps("```console\n$ seq 3\n1\n…\n```\n")

    assert step == Step("seq 3", ("1", "…"))
    assert matches(step.expected, "1\n2\n3\n")
    assert not matches(step.expected, "2\n3\n")
    assert matches(("a …, b",), "a xyz, b\n")
    assert not matches(("a …, b",), "a\n, b\n")
