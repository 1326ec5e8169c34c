"""Small projects of several languages, on disk and as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ORDERS = {
    "pyproject.toml": '[project]\nname = "orderbook"\nrequires-python = ">=3.11"\n'
    'dependencies = ["fastapi>=0.110", "sqlalchemy>=2"]\n\n'
    '[project.optional-dependencies]\ntest = ["pytest>=8", "hypothesis"]\n',
    "src/orderbook/api/create_order.py": '"""Take an order."""\n\n'
    "from orderbook.services.orders import OrderService\n\n\n"
    "async def create_order(service: OrderService, order_total: int) -> str:\n"
    "    saved_order = await service.create(order_total)\n    return saved_order\n"
    + "# kept short\n"
    * 8,
    "src/orderbook/services/orders.py": '"""What can be done with orders."""\n\nfrom dataclasses import dataclass\n\n\n'
    "@dataclass(frozen=True)\nclass OrderLine:\n    order_id: str\n    unit_price: int\n\n\n"
    "class OrderService:\n    async def create(self, order_total: int) -> str:\n        return str(order_total)\n"
    + "# kept short\n"
    * 8,
    "src/orderbook/repositories/order_repository.py": '"""Orders in the database of orderbook."""\n\n\n'
    "class OrderRepository:\n    def find_order(self, order_id: str) -> str | None:\n        return None\n\n\n"
    "class OrderMissing(LookupError):\n    pass\n" + "# kept short\n" * 8,
    "tests/services/test_orders.py": "from orderbook.services.orders import OrderLine\n\n\n"
    'def test_a_line_knows_its_order() -> None:\n    assert OrderLine("a", 1).order_id == "a"\n'
    + "# short\n"
    * 8,
    "README.md": "# Orderbook\n",
}


def lay_out(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def laid_out(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Puts files below a directory of their own."""
    return lambda files: lay_out(tmp_path / "project", files)


@pytest.fixture
def orders() -> Mapping[str, str]:
    return ORDERS


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small Python project, without git."""
    return lay_out(tmp_path / "orderbook", ORDERS).resolve()
