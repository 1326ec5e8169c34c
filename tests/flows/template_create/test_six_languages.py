"""Packages of small projects in six languages: filled in under other names they parse, resolve, build and run."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from bridgehead.flows import RunRequest, run_flow
from bridgehead.flows.engine.run_request import RunOptions
from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.template_create import template_create
from bridgehead.flows.template_create.build import build
from bridgehead.flows.template_create.package import (
    check,
    make,
    open_package,
    packages_below,
)
from bridgehead.flows.template_create.phases.p4_templates import make_templates
from bridgehead.flows.template_create.project.analysis import (
    CodebaseAnalysis,
    ExampleFile,
)

PYTHON = {
    "pyproject.toml": '[project]\nname = "bookshop"\nversion = "1.0"\n',
    "src/bookshop/__init__.py": '"""Bookshop."""\n',
    "src/bookshop/customers/__init__.py": "",
    "src/bookshop/customers/customer.py": "from dataclasses import dataclass\n\n\n@dataclass\nclass Customer:\n"
    '    customer_id: str\n    address: str = ""\n\n    @property\n    def label(self) -> str:\n'
    '        return f"customer {self.customer_id}"\n',
    "src/bookshop/customers/customer_service.py": '"""What can be done with customers."""\n\n'
    "from bookshop.customers.customer import Customer\n\n\nclass CustomerService:\n"
    "    def __init__(self) -> None:\n        self.customers: dict[str, Customer] = {}\n\n"
    "    def add_customer(self, customer: Customer) -> None:\n"
    '        if "@" not in customer.address:\n            raise ValueError("Invalid email address")\n'
    "        self.customers[customer.customer_id] = customer\n\n"
    "    def get_customer(self, customer_id: str) -> Customer:\n        return self.customers[customer_id]\n",
    "tests/test_customers.py": "import pytest\n\nfrom bookshop.customers.customer import Customer\n"
    "from bookshop.customers.customer_service import CustomerService\n\n\ndef test_customers_are_found() -> None:\n"
    '    service = CustomerService()\n    service.add_customer(Customer("a", "a@b"))\n'
    '    assert service.get_customer("a").label == "customer a"\n    with pytest.raises(ValueError):\n'
    '        service.add_customer(Customer("b"))\n',
}
SCRIPT = {
    "package.json": json.dumps(
        {"name": "bookshop", "type": "module", "scripts": {"test": "node --test"}}
    ),
    "src/customer-service.js": 'import { Customer } from "./customer.js";\n\nexport class CustomerService {\n'
    "  #customers = new Map();\n\n  addCustomer(customer) {\n"
    "    if (!(customer instanceof Customer)) throw new TypeError(`not a customer: ${customer}`);\n"
    "    this.#customers.set(customer.customerId, customer);\n  }\n\n  getCustomer(customerId) {\n"
    "    return this.#customers.get(customerId);\n  }\n}\n",
    "src/customer.js": "export class Customer {\n  constructor(customerId) {\n"
    "    this.customerId = customerId;\n  }\n}\n",
    "test/customer.test.js": 'import test from "node:test";\nimport assert from "node:assert";\n'
    'import { Customer } from "../src/customer.js";\nimport { CustomerService } from "../src/customer-service.js";\n\n'
    'test("a customer is found", () => {\n  const service = new CustomerService();\n'
    '  service.addCustomer(new Customer("a"));\n  assert.equal(service.getCustomer("a").customerId, "a");\n});\n',
}
RUST = {
    "Cargo.toml": '[package]\nname = "bookshop"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": "pub mod customer;\npub mod customer_store;\n",
    "src/customer.rs": "#[derive(Clone)]\npub struct Customer {\n    pub customer_id: u32,\n}\n",
    "src/customer_store.rs": "use crate::customer::Customer;\n\npub struct CustomerStore {\n"
    "    customers: Vec<Customer>,\n}\n\n"
    "impl CustomerStore {\n    pub fn new(customers: Vec<Customer>) -> Self {\n        Self { customers }\n    }\n\n"
    "    pub fn find_customer(&self, customer_id: u32) -> Option<&Customer> {\n"
    "        self.customers.iter().find(|customer| customer.customer_id == customer_id)\n    }\n}\n",
}
GO = {
    "go.mod": "module example.com/bookshop\n\ngo 1.22\n",
    "main.go": 'package main\n\nimport (\n\t"fmt"\n\n\t"example.com/bookshop/customer"\n)\n\nfunc main() {\n'
    '\tstore := customer.NewCustomerStore()\n\tfmt.Println("customers:", store.Count())\n}\n',
    "customer/customer.go": 'package customer\n\ntype Customer struct {\n\tCustomerID string `json:"customer_id"`\n}\n',
    "customer/customer_store.go": "package customer\n\ntype CustomerStore struct {\n\tcustomers []Customer\n}\n\n"
    "func NewCustomerStore() *CustomerStore {\n\treturn &CustomerStore{}\n}\n\n"
    "func (s *CustomerStore) Count() int {\n\treturn len(s.customers)\n}\n",
}
JAVA = {
    "pom.xml": "<project><artifactId>bookshop</artifactId></project>\n",
    "src/main/java/com/acme/bookshop/customer/Customer.java": "package com.acme.bookshop.customer;\n\n"
    "public class Customer {\n    private final String customerId;\n\n    public Customer(String customerId) {\n"
    "        this.customerId = customerId;\n    }\n\n    public String getCustomerId() {\n"
    "        return customerId;\n    }\n}\n",
    "src/main/java/com/acme/bookshop/customer/CustomerService.java": "package com.acme.bookshop.customer;\n\n"
    "import java.util.ArrayList;\nimport java.util.List;\n\npublic class CustomerService {\n"
    "    private final List<Customer> customers = new ArrayList<>();\n\n"
    "    public void addCustomer(Customer customer) {\n"
    "        customers.add(customer);\n    }\n}\n",
}
CSHARP = {
    "Bookshop.csproj": '<Project Sdk="Microsoft.NET.Sdk"></Project>\n',
    "Customers/Customer.cs": "namespace Bookshop.Customers;\n\npublic record Customer(string CustomerId);\n",
    "Customers/CustomerService.cs": "using System.Collections.Generic;\n\nnamespace Bookshop.Customers;\n\n"
    "public class CustomerService\n{\n    private readonly List<Customer> _customers = new();\n\n"
    "    public void AddCustomer(Customer customer) => _customers.Add(customer);\n\n"
    "    public Customer? GetCustomer(string customerId) => _customers.Find(c => c.CustomerId == customerId);\n}\n",
}
PROJECTS = {
    "Python": PYTHON,
    "JavaScript": SCRIPT,
    "Rust": RUST,
    "Go": GO,
    "Java": JAVA,
    "C#": CSHARP,
}
for files in (
    SCRIPT,
    RUST,
    GO,
    JAVA,
    CSHARP,
):  # very short files stand for nothing and are no samples
    for path in files:
        if path.endswith((".js", ".rs", ".go", ".java", ".cs")):
            files[path] += "// Kept short, so that it can be read in the test.\n" * 4


@pytest.fixture
def packaged(
    laid_out: Callable[[Mapping[str, str]], Path], tmp_path: Path
) -> Callable[[Mapping[str, str]], Path]:
    """Makes a package of a project, without agents."""

    def made(files: Mapping[str, str]) -> Path:
        root, output = laid_out(files), tmp_path / "package"
        options = RunOptions(heuristics_only=True)
        given = {"output_path": str(output), "no_agents": True}
        run_flow(template_create, RunRequest(root=root, given=given, options=options))
        return output

    return made


def everything(root: Path, *, documents: bool = False) -> dict[str, str]:
    """The files below a directory by path; those for agents only when they are wanted."""
    found = {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
    return {
        path: text
        for path, text in found.items()
        if documents or not path.startswith((".claude", "CLAUDE.md"))
    }


def sections(text: str) -> dict[str, list[str]]:
    """The lines below each heading of a document."""
    parts = [part.splitlines() for part in f"\n{text}".split("\n## ")[1:]]
    return {head: [line for line in lines if line] for head, *lines in parts}


def quoted(lines: Iterable[str]) -> set[str]:
    return {words for line in lines for words in re.findall(r"`([^`]+)`", line)}


@pytest.mark.parametrize("language", PROJECTS)
def test_what_agents_are_told_is_true_of_the_project_they_work_in(
    language: str, laid_out: Callable[[Mapping[str, str]], Path], tmp_path: Path
) -> None:
    """No sentence that fits any project: each agent knows files and commands, each convention shows an example."""
    root, output = laid_out(PROJECTS[language]), tmp_path / "package"
    given = {"output_path": str(output), "heuristic_agents": True}
    run_flow(
        template_create,
        RunRequest(root=root, given=given, options=RunOptions(heuristics_only=True)),
    )
    made = make(
        open_package(output), tmp_path / "new", name="Acme Shop", entity="Order Line"
    ).path
    files = everything(made, documents=True)
    assert not [
        path
        for path, text in files.items()
        if "{{" in text or "ookshop" in text or "ustomer" in text
    ]

    main = sections(files["CLAUDE.md"])
    assert files["CLAUDE.md"].startswith("# Acme Shop\n")
    commands = quoted(main["Commands"])
    folders = {str(parent) for path in files for parent in Path(path).parents} | {"."}
    for line in main["Project structure"]:
        folder, _, names = line.partition(": ")
        [place] = quoted([folder])
        assert {str(Path(place, name)) for name in quoted([names])} <= files.keys()
    for title in ("Naming conventions", "Patterns", "Quality standards"):
        for line in main.get(title, ()):
            assert (
                quoted([line]) & files.keys() or line == "- The original has no tests."
            ), line
    for line in main["Architecture overview"]:
        shown = {name for name in quoted([line]) if "/" in name}
        assert shown <= files.keys() | folders, line

    agents = {
        path: text for path, text in files.items() if path.startswith(".claude/agents/")
    }
    assert len(agents) >= 5
    for path, text in agents.items():
        found = sections(text)
        assert quoted(found["Commands"]) == commands, path
        assert quoted(found["Files To Read First"]) <= files.keys(), path
        assert quoted(found["Purpose"]) & (
            files.keys() | folders | {f"{name}/" for name in folders} | commands
        ), path
        assert found["Purpose"][0] in files["CLAUDE.md"]
    purposes = [sections(text)["Purpose"][0] for text in agents.values()]
    assert len(set(purposes)) == len(purposes)


@pytest.mark.parametrize("language", PROJECTS)
def test_every_file_is_proven_and_nothing_of_the_original_is_left(
    language: str, packaged: Callable[[Mapping[str, str]], Path], tmp_path: Path
) -> None:
    package = open_package(packaged(PROJECTS[language]))
    proof = check(package)

    assert (proof.problems, proof.unproven, proof.score) == ((), (), 10.0)
    assert (package.manifest.language, package.origin.entity) == (language, "Customer")
    made = make(package, tmp_path / "new", name="Acme Shop", entity="Order Line")
    files = everything(made.path)
    left = [
        line
        for path, text in files.items()
        for line in (path, *text.splitlines())
        if "ustomer" in line
    ]
    assert left == []
    assert not [path for path in files if "bookshop" in path.lower()]


@pytest.mark.parametrize("language", PROJECTS)
def test_the_old_names_give_the_old_project_back(
    language: str, packaged: Callable[[Mapping[str, str]], Path], tmp_path: Path
) -> None:
    package = open_package(packaged(PROJECTS[language]))

    made = make(package, tmp_path / "again", name="bookshop", entity="customer")

    assert everything(made.path) == {
        path: text for path, text in PROJECTS[language].items() if text
    }


@pytest.mark.parametrize(
    ("language", "program"),
    [("Python", "python3"), ("JavaScript", "npm"), ("Rust", "cargo")],
)
def test_the_projects_own_build_and_tests_pass_under_other_names(
    language: str,
    program: str,
    packaged: Callable[[Mapping[str, str]], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    toolchains = Path(pwd.getpwuid(os.getuid()).pw_dir, ".rustup")
    if (
        toolchains.is_dir()
    ):  # rustup looks for them in the home directory, which is a scratch one in tests
        monkeypatch.setenv("RUSTUP_HOME", str(toolchains))

    results = build(open_package(packaged(PROJECTS[language])))

    assert results
    assert [
        (result.command, result.problem, result.skipped)
        for result in results
        if result.problem
    ] == []
    assert all(not result.skipped for result in results)


def test_strings_keep_what_only_looks_like_a_name(
    packaged: Callable[[Mapping[str, str]], Path], tmp_path: Path
) -> None:
    made = make(
        open_package(packaged(PYTHON)), tmp_path / "new", name="Acme Shop", entity="Get"
    )

    service = (made.path / "src/acme_shop/gets/get_service.py").read_text()
    assert '"Invalid email address"' in service
    assert "def add_get(self, get: Get)" in service


def test_names_that_other_libraries_gave_are_left_to_them() -> None:
    text = (
        "from orm import customer_by, Customer as Foreign\nimport orm.customer\n\n\nclass CustomerService:\n"
        "    def find(self, customer_id):\n        return orm.query().customer_by(customer_id)\n"
    )
    texts = {
        "app/services.py": text,
        "app/customer.py": "class Customer:\n    pass\n\n\nclass CustomerModel:\n    pass\n",
    }
    analysis = CodebaseAnalysis(
        project_name="bookshop", example_files=tuple(map(ExampleFile, texts))
    )

    service = make_templates(analysis, texts).templates[0].content

    assert (
        "from orm import customer_by, Customer as Foreign\nimport orm.customer\n"
        in service
    )
    assert "class {{EntityName}}Service" in service
    assert ".customer_by({{EntitySnake}}_id)" in service


def test_a_java_package_of_others_is_left_to_them_though_it_begins_like_ours() -> None:
    folder = "src/main/java/org/shop"
    texts = {
        f"{folder}/Order.java": "package org.shop;\npublic class Order {}\n",
        f"{folder}/OrderService.java": "package org.shop;\nimport org.spring.Order;\n"
        "public class OrderService {}\n",
    }
    analysis = CodebaseAnalysis(
        primary_language="Java",
        project_name="shop",
        example_files=tuple(map(ExampleFile, texts)),
    )

    service = make_templates(analysis, texts).templates[1].content

    assert "import org.spring.Order;" in service
    assert "class {{EntityName}}Service" in service


def test_a_feature_is_added_to_a_project_that_exists_and_overwrites_nothing(
    packaged: Callable[[Mapping[str, str]], Path], tmp_path: Path
) -> None:
    package = open_package(packaged(PYTHON))
    target = make(package, tmp_path / "shop", name="Acme Shop", entity="Customer").path

    added = make(package, target, name="Acme Shop", entity="Invoice", feature=True)

    assert "src/acme_shop/invoices/invoice_service.py" in added.files
    assert not [path for path in added.files if "nvoice" not in path]
    before = everything(target)
    with pytest.raises(FlowMistake, match="already exists; nothing was written"):
        make(package, target, name="Acme Shop", entity="Invoice", feature=True)
    assert everything(target) == before


@pytest.mark.parametrize(
    ("name", "entity", "told"),
    [
        ("../up", "Order", "cannot be a name in code"),
        ("Shop", "class", "it is a reserved word"),
        ("Shop", "1st", "cannot be a name in code"),
        ("Shop", "", "is about Customer"),
        ("", "Order", "cannot be a name in code"),
    ],
)
def test_names_that_cannot_be_are_refused_before_anything_is_written(
    name: str,
    entity: str,
    told: str,
    packaged: Callable[[Mapping[str, str]], Path],
    tmp_path: Path,
) -> None:
    package = open_package(packaged(PYTHON))

    with pytest.raises(FlowMistake, match=told):
        make(package, tmp_path / "new", name=name, entity=entity)

    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.glob("new.*"))


def test_a_package_that_wants_to_write_elsewhere_is_refused(
    packaged: Callable[[Mapping[str, str]], Path], tmp_path: Path
) -> None:
    path = packaged(PYTHON)
    manifest = json.loads((path / "manifest.json").read_text())
    for evil in ("../../evil.py", "/etc/evil.py", ".git/hooks/post-commit"):
        manifest["files"][0]["path"] = evil
        (path / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(FlowMistake, match="would write to"):
            make(open_package(path), tmp_path / "new", name="Shop", entity="Order")
    assert not (tmp_path / "new").exists()


def test_packages_are_found_and_what_is_none_is_passed_over(
    packaged: Callable[[Mapping[str, str]], Path], tmp_path: Path
) -> None:
    path = packaged(GO)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/manifest.json").write_text("[")

    assert [found.path for found in packages_below(tmp_path)] == [path]
    with pytest.raises(FlowMistake, match="not a template package"):
        open_package(tmp_path / "broken")


def test_an_empty_project_has_no_score(
    packaged: Callable[[Mapping[str, str]], Path],
) -> None:
    package = open_package(packaged({"README.md": "# Nothing\n"}))

    assert check(package).score is None


def test_what_generators_and_migrations_wrote_is_left_out(
    packaged: Callable[[Mapping[str, str]], Path],
) -> None:
    generated = {
        "src/bookshop/migrations/create_customer.py": "class CreateCustomer:\n    pass\n"
        + "# row\n" * 60,
        "src/bookshop/get_stub.py": "# Code generated by tool. DO NOT EDIT.\nclass CustomerStub:\n    pass\n"
        + "# x\n" * 60,
    }

    package = open_package(packaged({**PYTHON, **generated}))

    assert not {t.original_path for t in package.templates} & generated.keys()
