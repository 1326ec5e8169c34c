"""Every topology of the examples runs by itself and shows what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples" / "bus"
SHOWN = {
    "satellite_and_hub": ["kitchen heard: Noon.", "study heard: Noon."],
    "cascading": [
        "lamp on: The lamp is on. (one end marker: True)",
        "why is the sky blue: It scatters blue light most. (one end marker: True)",
    ],
    "shared_session": [
        "tablet heard the phone say: dinner is ready",
        "phone heard: Enjoy your meal.",
        "tablet heard: Enjoy your meal.",
    ],
    "persona_per_satellite": [
        "attic says: Arr! It is raining.",
        "hall says: If I may, sir: It is raining.",
    ],
    "speech_as_a_service": ["speaker plays audio/x-text: Good morning."],
    "satellite_skill": [
        "bedroom runs lamp.skill:on for 'lamp on'",
        "the hub forgets lamp.skill",
    ],
}


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_shows_its_topology(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, SHOWN[name]), done.stderr[
        -2000:
    ]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_every_example_is_shown() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} - {"shared"} == SHOWN.keys()
