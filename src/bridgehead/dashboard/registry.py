"""The pages of the dashboard, in the order of the navigation."""

from __future__ import annotations

from typing import Final

from bridgehead.dashboard.page import Page
from bridgehead.dashboard.pages import councils, events, health, now

PAGES: Final[tuple[Page, ...]] = (
    now.PAGE,
    councils.PAGE,
    events.PAGE,
    health.PAGE,
)
