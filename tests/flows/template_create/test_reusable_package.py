"""A package must be of use in another project: its own names out, what was learnt from the original in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bridgehead.flows import RunRequest, run_flow
from bridgehead.flows.engine.run_request import RunOptions
from bridgehead.flows.template_create import template_create
from bridgehead.flows.template_create.agents import Recommendation
from bridgehead.flows.template_create.package import make, open_package
from bridgehead.flows.template_create.phases.p2_manifest import make_settings
from bridgehead.flows.template_create.phases.p4_templates import make_templates
from bridgehead.flows.template_create.phases.p5_agents import specialists
from bridgehead.flows.template_create.phases.p7_agent_texts import EnhancedSet
from bridgehead.flows.template_create.phases.p8_documentation import Facts
from bridgehead.flows.template_create.phases.placeholders import placed
from bridgehead.flows.template_create.progress import fallbacks_of
from bridgehead.flows.template_create.project.analysis import (
    BUILD,
    CodebaseAnalysis,
    ExampleFile,
    Framework,
    Layer,
    Pattern,
)
from bridgehead.flows.template_create.project.architecture import patterns_in
from bridgehead.flows.template_create.project.heuristics import stated_purpose
from bridgehead.flows.template_create.project.sampling import choose_samples


@pytest.mark.parametrize(
    ("text", "purpose"),
    [
        ('"""Take an order. Then more."""\n', "Take an order"),
        (
            "#!/usr/bin/env python\n# coding: utf-8\n'''What is sold\nin the shop.'''",
            "What is sold",
        ),
        ("/**\n * Lists the orders.\n */\nexport class A {}", "Lists the orders"),
        ("// Package shop sells things.\npackage shop", "Package shop sells things"),
        ("#!/bin/sh\n# Start the shop\n", "Start the shop"),
        ("/* Copyright 2024 Shop Ltd. All rights reserved. */", ""),
        ("# SPDX-License-Identifier: MIT\nimport os", ""),
        ("import os\n", ""),
        ("", ""),
    ],
)
def test_a_file_is_described_in_its_own_first_words(text: str, purpose: str) -> None:
    assert stated_purpose(text) == purpose


def test_a_very_long_first_line_is_cut_at_a_word() -> None:
    said = stated_purpose(f'"""{"many words " * 40}"""')
    assert len(said) <= 120 and said.endswith(" many…")


def test_directories_named_like_the_project_are_its_namespace() -> None:
    assert placed("src/order_book/api", "order-book") == "src/{{Namespace}}/api"
    assert placed("src/orders/api", "order-book") == "src/orders/api"
    assert placed("src/api", "") == "src/api"


def test_samples_come_from_all_over_a_large_project() -> None:
    sizes = {
        f"src/app/part{part:02}/module_{n}.py": 900
        for part in range(40)
        for n in range(5)
    }
    parts = sorted(
        {int(path.split("/")[2].removeprefix("part")) for path in choose_samples(sizes)}
    )
    assert len(parts) >= 15
    assert (min(parts) < 5, max(parts) > 34) == (True, True)


@pytest.fixture
def package(
    laid_out: Callable[[Mapping[str, str]], Path],
    orders: Mapping[str, str],
    tmp_path: Path,
) -> Path:
    root, output = (
        laid_out({**orders, "Makefile": "test:\n\tpytest orderbook\n"}),
        tmp_path / "package",
    )
    options = RunOptions(heuristics_only=True)
    run_flow(
        template_create,
        RunRequest(root=root, given={"output_path": str(output)}, options=options),
    )
    return output


def test_a_package_speaks_of_the_new_project_and_not_of_the_original(
    package: Path,
) -> None:
    documents = [
        package / "CLAUDE.md",
        package / "settings.json",
        *package.rglob(".claude/**/*.md"),
    ]
    documents += list((package / "agents").iterdir())
    assert len(documents) > 8
    for document in documents:
        assert "orderbook" not in document.read_text(), document
    main = (package / "CLAUDE.md").read_text()
    assert "`src/{{Namespace}}/repositories`" in main
    assert (
        "`src/{{Namespace}}/api/create_{{EntitySnake}}.py`: Take an {{EntityWords}}"
        in main
    )
    # A class of the original, not one we made up.
    assert (
        "types: PascalCase, e.g. `{{EntityName}}Line` in `src/{{Namespace}}/services/{{EntitiesSnake}}.py`"
        in main
    )
    assert "## Commands\n\n- `make test`\n- `python -m pytest`\n" in main
    rule = (package / ".claude/rules/patterns/immutable-value-objects.md").read_text()
    assert '"src/{{Namespace}}/services/**/*.py"' in rule
    assert (
        "`@dataclass(frozen=True)` in `src/{{Namespace}}/services/{{EntitiesSnake}}.py`."
        in rule
    )


def test_how_the_original_is_built_and_tested_comes_along(package: Path) -> None:
    build = {
        path.name: path.read_text()
        for path in (package / "templates" / "build").iterdir()
    }
    assert sorted(build) == ["Makefile.template", "pyproject.toml.template"]
    assert 'name = "{{Namespace}}"' in build["pyproject.toml.template"]
    assert list((package / "templates" / "tests").rglob("test_orders.py.template"))
    verifier = (package / "agents" / "test-verifier.md").read_text()
    first = verifier.partition("## Files To Read First")[2].split("`")[1]
    assert first == "tests/services/test_{{EntitiesSnake}}.py"


PAGES = {
    "shop/__init__.py": "",
    "shop/orders.py": "class Order:\n    pass\n\n\nclass OrderService:\n    def page(self):\n"
    "        return render('orders/list.html', sql=read('orders.sql'))\n",
    "shop/templates/orders/list.html": '{% extends "base.html" %}\n<h1 class="order">Your order</h1>\n{{ order.id }}\n',
    "shop/templates/base.html": "<link href=\"{{ url_for('static', filename='shop.css') }}\">\n",
    "shop/static/shop.css": ".order { color: red }\n",
    "shop/orders.sql": "select * from orders\n",
    "docs/unused.html": "<p>no file names this one</p>\n",
    "other/templates/base.html": "<p>of another part</p>\n",
}


def test_pages_styles_and_queries_that_the_sources_name_come_along(
    laid_out: Callable[[Mapping[str, str]], Path], tmp_path: Path
) -> None:
    output = tmp_path / "package"
    options = RunOptions(heuristics_only=True)
    made = run_flow(
        template_create,
        RunRequest(
            root=laid_out(PAGES), given={"output_path": str(output)}, options=options
        ),
    )
    assert made.result["not_proven"] == []
    target = tmp_path / "new"
    make(open_package(output), target, name="Acme", entity="Invoice Line")
    named = {
        path.relative_to(target).as_posix()
        for path in target.rglob("*")
        if path.suffix in (".html", ".css", ".sql")
    }
    assert named == {
        "shop/templates/invoice_lines/list.html",
        "shop/templates/base.html",
        "shop/static/shop.css",
        "shop/invoice_lines.sql",
    }
    page = (target / "shop/templates/invoice_lines/list.html").read_text()
    assert (
        page
        == '{% extends "base.html" %}\n<h1 class="invoice_line">Your invoice line</h1>\n{{ invoice_line.id }}\n'
    )


@pytest.mark.parametrize(("most", "needs"), [(3, ()), (2, ("shop/orders.sql",))])
def test_a_file_that_is_named_and_for_which_there_is_no_room_is_told_of(
    most: int, needs: tuple[str, ...]
) -> None:
    texts = {
        path: text for path, text in PAGES.items() if path != "shop/templates/base.html"
    }
    example = ExampleFile("shop/orders.py", "Orders")
    made = make_templates(
        CodebaseAnalysis(project_name="orders", example_files=(example,)),
        texts,
        most=most,
    )
    source = next(
        template
        for template in made.templates
        if template.original_path == "shop/orders.py"
    )
    assert source.needs == needs


def test_a_short_name_is_left_open_wherever_it_is_a_word() -> None:
    analysis = CodebaseAnalysis(
        project_name="ajv",
        example_files=(
            ExampleFile("package.json", layer=BUILD),
            ExampleFile("lib/ajv.js"),
        ),
    )
    texts = {
        "package.json": '{"name": "ajv", "main": "dist/ajv.js"}',
        "lib/ajv.js": 'export const name = "ajv"',
    }
    package, source = make_templates(analysis, texts).templates
    assert (
        package.content == '{"name": "{{Namespace}}", "main": "dist/{{Namespace}}.js"}'
    )
    assert (source.path, source.content) == (
        "lib/{{Namespace}}.js",
        'export const name = "{{ProjectCamel}}"',
    )


def test_what_no_file_of_the_package_shows_is_not_said() -> None:
    claimed = ("Error hierarchy", "Hexagonal ports", "Wrapped errors")
    analysis = CodebaseAnalysis(
        primary_language="Python",
        project_name="shop",
        layers=(Layer("Ports", ("src/shop/ports",), "Where it meets the world."),),
        key_abstractions=("ShopError", "Harbour"),
        pattern_details=(
            *(Pattern(name) for name in claimed[:2]),
            Pattern(claimed[2], example_files=("src/shop/e.py",)),
        ),
        example_files=(ExampleFile("src/shop/e.py"),),
    )
    made = make_templates(
        analysis, {"src/shop/e.py": "class ShopError(Exception):\n    pass\n"}
    )

    facts = Facts(analysis, make_settings(analysis), made)

    assert facts.patterns == {
        "Error hierarchy": "**Error hierarchy** (common), e.g. `class {{ProjectName}}Error(Exception):`"
        " in `src/{{Namespace}}/e.py`",
        "Wrapped errors": "**Wrapped errors** (common), e.g. `src/{{Namespace}}/e.py`",
    }
    assert facts.abstractions == ["`{{ProjectName}}Error` (`src/{{Namespace}}/e.py`)"]
    assert (facts.layers, facts.naming, facts.tests) == (
        [],
        [],
        "The original has no tests.",
    )


def test_words_that_only_look_like_a_sign_show_no_pattern_and_make_no_specialist() -> (
    None
):
    texts = {
        "src/shop/store.py": 'def find() -> str:\n    """Where the record is kept."""\n    return ""\n',
        "src/shop/page.js": 'button.addEventListener("click", () => {});\n',
    }
    analysis = CodebaseAnalysis(
        primary_language="Python",
        frameworks=(Framework("click"),),
        example_files=tuple(map(ExampleFile, texts)),
    )

    facts = Facts(analysis, make_settings(analysis), make_templates(analysis, texts))

    assert [agent.name for agent in specialists(facts)] == ["python-specialist"]
    assert [pattern.name for pattern in patterns_in(texts)] == ["Observer"]


def test_a_reason_that_several_requests_share_is_told_once() -> None:
    enhanced = EnhancedSet(fallbacks=("TIMEOUT: late", "TIMEOUT: late"))
    told = fallbacks_of(CodebaseAnalysis(), Recommendation(), enhanced)
    assert told == ("agent_enhancement: basic texts kept (TIMEOUT: late)",)
