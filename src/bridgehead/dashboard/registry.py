"""The pages of the dashboard, in the order of the navigation."""

from __future__ import annotations

from typing import Final

from bridgehead.dashboard.page import Page
from bridgehead.dashboard.pages import bus, councils, events, flows, health, now, threads

PAGES: Final[tuple[Page, ...]] = (
    now.PAGE,
    councils.PAGE,
    threads.PAGE,
    flows.PAGE,
    bus.PAGE,
    events.PAGE,
    health.PAGE,
)
