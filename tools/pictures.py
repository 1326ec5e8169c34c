"""The pictures of the README and the documentation, made from real runs: `make pictures`.

The demo is run in a scratch folder; what a terminal and a browser show of it afterwards is drawn.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PICTURES: Final = Path(__file__).resolve().parent.parent / "docs" / "pictures"
SCRIPTS: Final = Path(sys.executable).parent
COLUMNS: Final = 112
ROWS: Final = 30
SIZE: Final = {"width": 1100, "height": 760}
LINK: Final = re.compile(r"https?://\S+")


def main() -> int:
    chromium = next(
        filter(
            None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
        ),
        None,
    )
    if chromium is None:
        sys.stderr.write("pictures need Chromium, which was not found on PATH\n")
        return 1
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bridgehead-pictures-") as scratch:
        environ = {
            **os.environ,
            "TMPDIR": scratch,
            "HOME": scratch,
            "PATH": f"{SCRIPTS}:/usr/bin:/bin",
        }
        subprocess.run(
            [sys.executable, "-m", "bridgehead.demo"],
            env=environ,
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=scratch,
        )
        folder = next(Path(scratch).glob("bridgehead-demo-*"))
        environ |= {
            "BRIDGEHEAD_HOME": str(folder / "home"),
            "GIT_CONFIG_GLOBAL": str(folder / "gitconfig"),
        }
        question = (
            "flow",
            "run",
            "ask",
            "--agent",
            "release-manager",
            "--prompt",
            "Ship 2.4 on Friday, or wait?",
        )
        subprocess.run(
            ["bridgehead", *question],
            env=environ,
            cwd=folder / "orders",
            stdout=subprocess.DEVNULL,
        )
        draw_terminal(("bridgehead", "council", "show"), environ, folder / "orders")
        draw_dashboard(chromium, environ, folder / "orders")
    return 0


def draw_terminal(words: tuple[str, ...], environ: dict[str, str], where: Path) -> None:
    """What the command prints on a terminal, as SVG."""
    from rich.console import Console
    from rich.text import Text

    shown = "\n".join(on_terminal(words, environ, where).splitlines()[:ROWS])
    with open(os.devnull, "w") as nowhere:
        console = Console(
            record=True,
            width=COLUMNS,
            file=nowhere,
            force_terminal=True,
            color_system="truecolor",
        )
        console.print(Text.from_ansi(f"\x1b[1m$ {' '.join(words)}\x1b[0m\n{shown}"))
        drawn = console.export_svg(title="bridgehead", unique_id="council")
    # Nothing is loaded from elsewhere when somebody looks at it.
    drawn = re.sub(r"@font-face\s*\{.*?\}", "", drawn, flags=re.DOTALL).replace(
        "Fira Code", "monospace"
    )
    (PICTURES / "council.svg").write_text(
        re.sub(r"<!--.*?-->\n?", "", drawn, flags=re.DOTALL)
    )


def on_terminal(words: tuple[str, ...], environ: dict[str, str], where: Path) -> str:
    ours, theirs = pty.openpty()
    sized = {
        **environ,
        "COLUMNS": str(COLUMNS),
        "LINES": "50",
        "TERM": "xterm-256color",
    }
    process = subprocess.Popen(
        words,
        env=sized,
        cwd=where,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            said += (more := os.read(ours, 65536))
        except OSError:  # the far side of a terminal has ended
            break
        if not more:
            break
    process.wait()
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


def draw_dashboard(chromium: str, environ: dict[str, str], where: Path) -> None:
    """The pages a person sees first, as PNG."""
    from playwright.sync_api import sync_playwright

    with served(environ, where) as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        )
        page = browser.new_page(viewport=SIZE, color_scheme="light")  # type: ignore[arg-type]
        page.goto(link)
        page.wait_for_selector("#connection:not([data-state=connecting])")
        page.screenshot(path=str(PICTURES / "dashboard.png"))
        page.goto(
            page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2] + "/councils"
        )
        page.locator("main a[href^='/councils/']").first.click()
        page.wait_for_selector("#connection:not([data-state=connecting])")
        page.screenshot(path=str(PICTURES / "council.png"))
        browser.close()


@contextmanager
def served(environ: dict[str, str], where: Path) -> Iterator[str]:
    """The link of a dashboard that runs meanwhile."""
    with subprocess.Popen(
        ["bridgehead", "web", "--port", "0"],
        env=environ,
        cwd=where,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield next(
                found[0] for line in process.stdout if (found := LINK.search(line))
            )
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
