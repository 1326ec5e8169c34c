"""A real Chromium on a served dashboard, and what is asked of every page in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = os.environ.get("BRIDGEHEAD_CHROMIUM") or next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
AXE = (
    Path(__file__).resolve().parents[3]
    / ".venv"
    / "npm"
    / "node_modules"
    / "axe-core"
    / "axe.min.js"
)
NEEDS_AXE = pytest.mark.skipif(
    not AXE.exists(), reason="axe-core is not installed (make .venv/peers)"
)
NEEDS_CHROMIUM = [
    pytest.mark.peer,
    pytest.mark.skipif(
        CHROMIUM is None,
        reason="no Chromium on this machine (or set BRIDGEHEAD_CHROMIUM)",
    ),
]
INJECTED = """() => [...document.querySelectorAll('*')].filter((one) =>
    one.matches('img, iframe, object, embed, base, animate, foreignObject, style, meta[http-equiv]')
    || one.matches('script:not([src^="/static/"]), link:not([href^="/static/"]):not([href="data:,"])')
    || [...one.attributes].some(({name, value}) => name.startsWith('on')
        || /^(href|src|action|formaction)$/.test(name) && /^\\s*(javascript|data:text|vbscript)/i.test(value))
  ).map((one) => one.outerHTML.slice(0, 200))"""
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
FITS = "document.documentElement.scrollWidth <= innerWidth"


@contextmanager
def browsing(link: str) -> Iterator[tuple[Any, list[str]]]:
    """One page, let in by the link, and what its console complained of."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        page = browser.new_page()
        page.set_default_timeout(120_000)
        problems: list[str] = []
        page.on(
            "console",
            lambda said: (
                problems.append(said.text)
                if said.type in ("error", "warning")
                else None
            ),
        )
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(link)
        assert "token" not in page.url
        yield page, problems
        browser.close()


def connected(page: Any) -> None:
    page.wait_for_selector('#connection[data-state="connected"]')


def assert_keeps_nobody_out(
    page: Any, base: str, paths: Iterable[str], width: int, scheme: Any
) -> None:
    """axe-core finds nothing wrong with these pages, everything folded out."""
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    wrong: list[str] = []
    for path in paths:
        page.goto(f"{base}{path}")
        page.evaluate(OPEN_ALL)
        wrong += [f"{path}: {one}" for one in violations(page)]
    assert not wrong, "\n".join(wrong)


BOTH_WIDTHS_AND_THEMES = pytest.mark.parametrize(
    ("width", "scheme"),
    [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")],
)


OVERLAPPING = """() => {
  const kinds = 'main :is(a, button, input, select, textarea, .when, .id, .state, .open-mark)';
  const cut = (a, b) => ({
    left: Math.max(a.left, b.left), right: Math.min(a.right, b.right),
    top: Math.max(a.top, b.top), bottom: Math.min(a.bottom, b.bottom),
  });
  const seen = (one, box) => {
    for (let holder = one.parentElement; holder; holder = holder.parentElement)
      if (getComputedStyle(holder).overflow === 'hidden') box = cut(box, holder.getBoundingClientRect());
    return box;
  };
  const shown = [...document.querySelectorAll(kinds)]
    .filter(one => one.checkVisibility() && !one.closest('.hidden, svg'))
    .flatMap(one => [...one.getClientRects()].map(box => [one, seen(one, box)]))
    .filter(([, box]) => box.right - box.left > 2 && box.bottom - box.top > 2);
  const met = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
  const named = one => (one.innerText || one.name || one.className).trim().slice(0, 40);
  return shown.flatMap(([one, box], number) => shown.slice(number + 1)
    .filter(([other, its]) => !one.contains(other) && !other.contains(one) && met(box, its))
    .map(([other]) => `${named(one)} | ${named(other)}`));
}"""
"""What is drawn over something else: pairs of things to read or to press whose boxes meet.

The lines a clamped title hides are still laid out, over the row below it; what is cut off is not drawn.
"""


def assert_fits(
    page: Any, base: str, paths: Iterable[str], width: int, scheme: Any, folder: Path
) -> None:
    """No page is wider than its window, nothing overlaps; a picture of each is in `folder`, for people to look at."""
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    for path in paths:
        page.goto(f"{base}{path}")
        page.evaluate(OPEN_ALL)
        name = (
            "".join(letter if letter.isalnum() else "-" for letter in path).strip("-")
            or "now"
        )
        page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
        assert page.evaluate(FITS), path
        assert page.evaluate(OVERLAPPING) == [], path


def violations(page: Any) -> list[str]:
    """What axe-core finds wrong with the page as it is shown now: rule, where, why."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")[
        "violations"
    ]
    return [
        f"{rule['id']}: {node['target'][0]}: {node['failureSummary'].splitlines()[-1].strip()}"
        for rule in found
        for node in rule["nodes"]
    ]
