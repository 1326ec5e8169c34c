"""What the heuristics make of small trees of several languages."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bridgehead.flows.template_create.phases.p1_analysis import without_false_claims
from bridgehead.flows.template_create.phases.p4_templates import (
    Origin,
    make_templates,
    prove,
)
from bridgehead.flows.template_create.project.analysis import (
    CodebaseAnalysis,
    ExampleFile,
    Framework,
)
from bridgehead.flows.template_create.project.dependencies import (
    dependencies_in,
    frameworks_in,
)
from bridgehead.flows.template_create.project.heuristics import Material, analyse
from bridgehead.flows.template_create.project.sampling import (
    choose_samples,
    directory_tree,
    is_excluded,
)


def analysis_of(files: Mapping[str, str]) -> CodebaseAnalysis:
    samples = choose_samples({path: len(text) for path, text in files.items()})
    return analyse(Material(sorted(files), files, samples, "project"))


def test_a_python_project_is_recognised_with_its_frameworks_layers_and_tests(
    orders: Mapping[str, str],
) -> None:
    found = analysis_of(orders)

    assert (found.primary_language, found.framework, found.language_version) == (
        "Python",
        "FastAPI",
        ">=3.11",
    )
    assert [f.name for f in found.frameworks] == [
        "FastAPI",
        "SQLAlchemy",
        "pytest",
        "hypothesis",
    ]
    assert [layer.name for layer in found.layers] == [
        "Presentation",
        "Application",
        "Infrastructure",
    ]
    assert found.architecture == "Layered"
    assert found.testing.framework == "pytest"
    assert found.project_name == "orderbook"
    assert found.naming.classes == "PascalCase"
    assert found.naming.methods == "snake_case"
    assert {
        "Repository",
        "Service layer",
        "Immutable value objects",
        "Asynchronous I/O",
    } <= set(found.patterns)


@pytest.mark.parametrize(
    ("files", "language", "framework", "tests"),
    [
        (
            {
                "package.json": '{"name": "shop", "dependencies": {"react": "^18.2.0"}, '
                '"devDependencies": {"vitest": "1"}}',
                "src/components/Cart.tsx": "export interface CartProps { items: string[] }\n",
                "src/components/Cart.test.tsx": "test('x', () => {})\n",
            },
            *("TypeScript", "React", "vitest"),
        ),
        (
            {
                "Api.csproj": '<Project Sdk="Microsoft.NET.Sdk.Web">'
                '<PackageReference Include="xunit" Version="2.6" /></Project>',
                "Controllers/OrderController.cs": "public class OrderController { public Order GetOrder(int id) {} }",
            },
            *("C#", "ASP.NET Core", "xUnit"),
        ),
        (
            {
                "go.mod": "module example.com/shop\n\ngo 1.22\n\nrequire github.com/gin-gonic/gin v1.9.1\n"
                "require github.com/stretchr/testify v1.8.0\n",
                "internal/store/store.go": "package store\n\nfunc FindOrder(id string) error { return nil }\n",
            },
            *("Go", "Gin", "testify"),
        ),
        (
            {
                "Cargo.toml": '[package]\nname = "shop"\n[dependencies]\naxum = { version = "0.7" }\n',
                "src/main.rs": "pub struct Order;\n",
            },
            *("Rust", "Axum", "Unknown"),
        ),
        (
            {
                "pom.xml": "<artifactId>junit-jupiter</artifactId>",
                "A.java": "class A {}",
            },
            "Java",
            "Unknown",
            "JUnit",
        ),
    ],
)
def test_other_languages_are_recognised_by_their_own_files(
    files: Mapping[str, str], language: str, framework: str, tests: str
) -> None:
    found = analysis_of(files)

    assert (found.primary_language, found.framework, found.testing.framework) == (
        language,
        framework,
        tests,
    )


def test_an_empty_project_is_unknown_and_not_an_error() -> None:
    found = analysis_of({})

    assert (found.primary_language, found.architecture, found.layers) == (
        "Unknown",
        "Unknown",
        (),
    )


@pytest.mark.parametrize(
    "name", ["pyproject.toml", "package.json", "Cargo.toml", "composer.json"]
)
@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"dependencies": 3}', "[project]\ndependencies = 3", "\x00", ""],
)
def test_a_broken_dependency_file_tells_nothing(name: str, text: str) -> None:
    assert frameworks_in(dependencies_in({name: text})) == []


def test_generated_files_do_not_decide_the_language() -> None:
    generated = [f"obj/Debug/{number}.java" for number in range(9)]

    assert [path for path in (*generated, "src/Order.cs") if not is_excluded(path)] == [
        "src/Order.cs"
    ]


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "conf/.env.local",
        "tls/server.pem",
        "id_rsa",
        "a.key",
        "credentials.json",
    ],
)
def test_files_that_may_hold_secrets_are_left_out_by_name(path: str) -> None:
    assert is_excluded(path)


def test_samples_follow_the_quota_take_turns_between_directories_and_never_vary() -> (
    None
):
    sizes = {f"src/{folder}/create_{n}.py": 500 for folder in "abcd" for n in range(10)}
    sizes |= {f"src/e/get_{n}.py": 500 for n in range(10)} | {
        f"tests/test_{n}.py": 500 for n in range(10)
    }

    chosen = choose_samples(sizes)

    assert chosen == choose_samples(dict(reversed(sizes.items())))
    assert len(chosen) == 20
    assert sum(path.startswith("tests/") for path in chosen) == 2
    assert sum("/get_" in path for path in chosen) >= 4
    assert {path.split("/")[1] for path in chosen if "create_" in path} == {
        "a",
        "b",
        "c",
        "d",
    }


def test_the_directory_tree_counts_files_and_stays_short() -> None:
    assert (
        directory_tree(["a/b/x.py", "a/y.py", "z.py"]) == "./ (3)\n  a/ (2)\n    b/ (1)"
    )
    assert directory_tree([f"{n:03}/x.py" for n in range(400)]).endswith("… 251 more")


@pytest.mark.parametrize(
    ("name", "text"),
    [("package.json", "[" * 5000), ("pyproject.toml", f"a = {'[' * 5000}")],
)
def test_a_dependency_file_that_is_nested_beyond_reason_tells_nothing(
    name: str, text: str
) -> None:
    found = analysis_of({name: text})
    assert (found.project_name, found.language_version, found.frameworks) == (
        "project",
        "",
        (),
    )


LOCKS = {
    "package-lock.json": (
        {"package.json": '{"dependencies": {"express": "^4.0.0"}}'},
        '{"packages": {"node_modules/express": {\n      "version": "4.19.2"\n}}}',
        ("Express", "4.19.2"),
    ),
    "poetry.lock": (
        {"pyproject.toml": '[project]\nname = "a"\ndependencies = ["flask>=2"]\n'},
        '[[package]]\nname = "flask"\nversion = "3.1.2"\n',
        ("Flask", "3.1.2"),
    ),
    "Cargo.lock": (
        {"Cargo.toml": '[dependencies]\naxum = "0.7"\n'},
        '[[package]]\nname = "axum"\nversion = "0.7.9"\n',
        ("Axum", "0.7.9"),
    ),
    "yarn.lock": (
        {"package.json": '{"dependencies": {"react": "^18"}}'},
        'react@^18:\n  version "18.3.1"\n',
        ("React", "18.3.1"),
    ),
    "pnpm-lock.yaml": (
        {"package.json": '{"dependencies": {"vue": "^3"}}'},
        "packages:\n\n  vue@3.5.13:\n    resolution: {}\n",
        ("Vue", "3.5.13"),
    ),
    "Pipfile.lock": (
        {"requirements.txt": "flask>=2\n"},
        '{"default": {\n    "flask": {\n      "hashes": ["sha256:1"],\n      "version": "==3.1.2"\n}}}',
        ("Flask", "3.1.2"),
    ),
    "Gemfile.lock": (
        {"Gemfile": 'gem "rails", "~> 7"\n'},
        "GEM\n  specs:\n    rails (7.1.4)\n",
        ("Rails", "7.1.4"),
    ),
    "composer.lock": (
        {"composer.json": '{"require": {"laravel/framework": "^11"}}'},
        '{"packages": [{"name": "laravel/framework",\n "version": "v11.9.2"}]}',
        ("Laravel", "11.9.2"),
    ),
    "Directory.Packages.props": (
        {"src/App.csproj": '<PackageReference Include="MediatR" />'},
        '<PackageVersion Include="MediatR" Version="14.2.0" />',
        ("MediatR", "14.2.0"),
    ),
    "packages.lock.json": (
        {"src/App.csproj": '<PackageReference Include="MediatR" />'},
        '{"MediatR": {\n "type": "Direct",\n "requested": "[14, )",\n "resolved": "14.2.0"}}',
        ("MediatR", "14.2.0"),
    ),
}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_version_is_the_one_the_lock_file_settled_on(lock: str) -> None:
    files, text, expected = LOCKS[lock]

    [found] = frameworks_in(dependencies_in({**files, lock: text}))

    assert (found.name, found.version) == expected


FLASK = {
    "requirements.txt": "click==8.1.7\nFlask==3.0.0\n",
    ".flaskenv": "FLASK_APP=blog.py\n",
    "blog.py": "from app import create_app\n\napp = create_app()\n",
    "app/__init__.py": "from flask import Flask\n\n\ndef create_app():\n    return Flask(__name__)\n",
    "app/cli.py": "import click\nfrom flask import Blueprint\n",
    "tests.py": "#!/usr/bin/env python\nimport unittest\n\n\nclass UserTest(unittest.TestCase):\n    pass\n",
    "migrations/versions/1_users.py": "down_revision = None\nbranch_labels = None\ndepends_on = None\n",
}
DOTNET = {
    "Shop.slnx": "<Solution/>",
    "Directory.Build.props": "<TargetFramework>net9.0</TargetFramework>",
    "src/Web/Web.csproj": '<Project Sdk="Microsoft.NET.Sdk.Web"></Project>',
    "src/Application/Orders/Commands/CreateOrder.cs": "namespace Shop.Application.Orders;\n"
    "public class CreateOrder {\n    void Run() {\n        var newOrder = new Order { OrderTotal = 1 };\n    }\n}\n",
}


def test_a_flask_application_is_described_by_what_it_has() -> None:
    found = analysis_of(FLASK)

    assert (
        found.framework == "Flask"
    )  # most files speak of it, although click comes first
    assert found.commands == (
        "pip install -r requirements.txt",
        "flask run",
        "python -m unittest",
    )
    assert (found.testing.framework, found.has_tests) == ("unittest", True)
    assert "migrations" not in {
        place for layer in found.layers for place in layer.directories
    }
    assert not set(found.naming.examples.get("variable", ())) & {
        "branch_labels",
        "down_revision",
    }


def test_a_dotnet_solution_gives_its_name_its_commands_and_its_layers() -> None:
    found = analysis_of(DOTNET)

    assert (found.project_name, found.language_version) == ("Shop", "net9.0")
    assert found.commands == ("dotnet build", "dotnet test")
    assert [
        layer.name for layer in found.layers if "src/Application" in layer.directories
    ] == ["Application"]
    assert (
        found.naming.variables == "camelCase"
    )  # OrderTotal is a member that is set, no variable


def test_names_below_a_namespace_that_no_directory_bears_are_left_open() -> None:
    using = "using Shop.Application.Orders;\nnamespace Shop.Web;\npublic class OrderEndpoint { CreateOrder order; }\n"
    texts = {path: text for path, text in DOTNET.items() if path != "Shop.slnx"}
    texts |= {
        "src/Web/OrderEndpoint.cs": using,
        "src/Order.cs": "public class Order {}\nclass OrderDto {}\n",
    }
    examples = tuple(ExampleFile(path) for path in texts if path.endswith(".cs"))
    analysis = CodebaseAnalysis(
        primary_language="C#", project_name="Shop", example_files=examples
    )

    made = make_templates(analysis, texts)

    opened = {template.original_path: template.content for template in made.templates}
    assert (
        "using {{ProjectName}}.Application.{{EntitiesName}};"
        in opened["src/Web/OrderEndpoint.cs"]
    )
    proof = prove(made.templates, Origin("C#", "Shop", made.entity))
    assert (proof.problems, proof.unproven) == ((), ())


def test_a_java_package_is_spelled_alike_where_it_is_declared_and_in_the_middle_of_code() -> (
    None
):
    path = "src/main/java/org/shop/orders/Order.java"
    text = "package org.shop.orders;\npublic class Order { org.shop.orders.OrderId id; }\nclass OrderId { }\n"
    analysis = CodebaseAnalysis(
        primary_language="Java", project_name="shop", example_files=(ExampleFile(path),)
    )

    made = make_templates(analysis, {path: text})

    content = made.templates[0].content
    assert content.count("org.{{Namespace}}.") == 2 and "shop" not in content


def test_what_an_agent_claims_is_held_against_what_was_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counted = CodebaseAnalysis(
        primary_language="Python",
        framework="Flask",
        dependencies=("flask", "sqlalchemy"),
    )
    claimed = CodebaseAnalysis(
        primary_language="COBOL",
        framework="CICS",
        frameworks=(Framework("CICS"), Framework("SQLAlchemy"), Framework("Flask")),
        agent_used=True,
    )

    told = without_false_claims(claimed, counted)

    assert (told.primary_language, told.framework) == ("Python", "Flask")
    assert [framework.name for framework in told.frameworks] == ["SQLAlchemy", "Flask"]
    assert "'COBOL' was dropped: the project has no such file" in caplog.text
    assert "'CICS' was dropped: no dependency file names it" in caplog.text
