"""A result that a council reviewed, handed over between two machines through the installed commands."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from bridgehead.assembly.rigs.rig import make_rig
from support.rig_bridges import OURS, Bridge, Clone, with_signing_key

EXAMPLE = Path(__file__).resolve().parents[2] / "src" / "bridgehead" / "demo" / "orders"
BRIDGEHEAD = str(OURS.with_name("bridgehead"))
SEND = (
    "send",
    "RESULT",
    "--thread",
    "demo-01",
    "--to",
    "windows-5080",
    "--body-file",
    "-",
)


@pytest.fixture
def mac(bridge: Bridge) -> Clone:
    clone = bridge.clone("a", "mac-m5max")
    (clone.path / "demo-01").mkdir()
    return clone


@pytest.fixture
def reviewed(bridge: Bridge, mac: Clone) -> dict[str, str]:
    """A council of the static seat over the example, held on the sender's machine in a project of its own."""
    project = Clone(bridge.base / "orders", mac.home)
    shutil.copytree(EXAMPLE, project.path)
    project.git("init", "-q")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "start")
    done = project.run(
        BRIDGEHEAD,
        "council",
        "review",
        "--runtime",
        "static",
        "--json",
        PATH="/usr/bin:/bin",
    )
    report = done.json
    file = project.path / report["report_files"]["json"]
    return {
        "council": report["review_id"],
        "verdict": report["gate_verdict"],
        "report_sha256": sha256(file.read_bytes()).hexdigest(),
        "file": str(file),
    }


def said_in(envelope: str) -> dict[str, str]:
    _, _, rest = envelope.partition("```json bridgehead-council\n")
    return json.loads(rest.partition("\n```")[0])


def test_a_reviewed_result_is_taken_where_reviews_are_demanded_and_any_other_kept_apart(
    bridge: Bridge, mac: Clone, reviewed: dict[str, str]
) -> None:
    windows = bridge.clone("b", "windows-5080")
    elsewhere = {
        "BRIDGEHEAD_HOME": str(bridge.base / "other-home"),
        "BRIDGEHEAD_RIGS_REQUIRE_COUNCIL": "true",
    }
    file = reviewed.pop("file")
    sign_on(mac, trusted_by=windows, base=bridge.base)

    mac.rig(*SEND, "--council", reviewed["council"][:12], stdin="Built.\n").ok()

    assert said_in((mac.path / "demo-01" / "RESULT.md").read_text()) == reviewed
    assert "pulled=true" in windows.rig("sync", "--auto", **elsewhere).ok().out
    assert "failed=0" in windows.rig("verify", "--require-council").ok().out

    mac.rig(*SEND, stdin="Built without asking anybody.\n").ok()

    pulled = windows.rig("sync", "--auto", "--json", **elsewhere).ok().json
    assert pulled["pulled"] and pulled["new_envelopes"] == 0
    assert pulled["quarantined"] == [
        {"path": "demo-01/RESULT-2.md", "kinds": ["council_absent"]}
    ]
    assert windows.rig("thread", "demo-01", "--json").ok().json["envelope_count"] == 1
    assert (
        windows.rig("verify").ok() and mac.rig("verify", "--require-council").code == 1
    )

    Path(file).write_text("{}")
    broken = mac.rig("verify", "--require-council", "--json")
    assert (
        broken.code == 1 and broken.json["verification"]["failed"] == 2
    )  # an edited report proves nothing


def sign_on(clone: Clone, *, trusted_by: Clone, base: Path) -> None:
    """Have `clone` sign what it writes, with a key that `trusted_by` knows as its own."""
    key = with_signing_key(clone, base)
    clone.git("config", "commit.gpgsign", "true")
    trusted_by.rig("trust", "add", "mac-m5max", str(key)).ok()


def test_a_council_nobody_here_knows_is_taken_only_from_a_signer_who_is_trusted(
    bridge: Bridge, mac: Clone
) -> None:
    windows = bridge.clone("b", "windows-5080")
    mark = {
        "council": "20261115-000000-invented",
        "verdict": "PASS",
        "report_sha256": "ab" * 32,
    }
    body = f"Built.\n\n```json bridgehead-council\n{json.dumps(mark)}\n```\n"
    mac.rig(*SEND, stdin=body).ok()

    pulled = (
        windows.rig("sync", "--auto", "--json", BRIDGEHEAD_RIGS_REQUIRE_COUNCIL="true")
        .ok()
        .json
    )
    found = mac.rig("verify", "--require-council", "--json")

    unconfirmed = [{"path": "demo-01/RESULT.md", "kinds": ["council_unconfirmed"]}]
    assert pulled["quarantined"] == unconfirmed
    assert found.code == 1 and found.json["verification"]["items"] == unconfirmed


def test_a_verdict_that_the_record_does_not_know_is_a_mismatch(
    mac: Clone, reviewed: dict[str, str]
) -> None:
    better = {name: reviewed[name] for name in ("council", "report_sha256")} | {
        "verdict": "PASS"
    }
    assert reviewed["verdict"] != "PASS"
    mac.rig(
        *SEND,
        stdin=f"Built.\n\n```json bridgehead-council\n{json.dumps(better)}\n```\n",
    ).ok()

    found = mac.rig("verify", "--require-council", "--json")

    assert found.json["verification"]["items"] == [
        {"path": "demo-01/RESULT.md", "kinds": ["council_mismatch"]}
    ]


def test_a_report_edited_on_disk_passes_no_gate(
    bridge: Bridge, mac: Clone, reviewed: dict[str, str]
) -> None:
    project = Clone(bridge.base / "orders", mac.home)
    report = Path(reviewed["file"])
    report.write_text(report.read_text().replace(reviewed["verdict"], "PASS"))

    gated = project.run(BRIDGEHEAD, "council", "gate", "--json")
    sent = mac.rig(*SEND, "--council", reviewed["council"], stdin="Built.\n")

    assert gated.code == 3
    assert gated.json["refused_because"] == [
        "the report cannot be confirmed: its file was changed after it was written"
    ]
    assert sent.code != 0 and "cannot be confirmed" in sent.err


def test_a_mark_that_the_report_at_hand_contradicts_fails(
    mac: Clone, reviewed: dict[str, str]
) -> None:
    mac.rig(*SEND, "--council", reviewed["council"], stdin="Built.\n").ok()
    report = Path(reviewed["file"])
    report.write_text(report.read_text() + "\n")

    found = mac.rig("verify", "--require-council", "--json")

    assert found.code == 1
    assert found.json["verification"]["items"] == [
        {"path": "demo-01/RESULT.md", "kinds": ["council_mismatch"]}
    ]


@pytest.mark.parametrize(
    ("message_type", "body", "says"),
    [
        ("RESULT", "Built.\n", "no report of council 'nobody' on this machine"),
        ("ACK", "Built.\n", "--council goes with RESULT only"),
    ],
)
def test_a_council_that_cannot_be_named_changes_nothing(
    mac: Clone, message_type: str, body: str, says: str
) -> None:
    arguments = (
        "send",
        message_type,
        "--thread",
        "demo-01",
        "--to",
        "windows-5080",
        "--body-file",
        "-",
    )
    refused = mac.rig(*arguments, "--council", "nobody", stdin=body)

    assert (
        refused.code == 1
        and says in refused.err
        and "hint:" in refused.err
        and refused.out == ""
    )
    assert mac.envelopes() == [] and mac.git("status", "--porcelain") == ""


def test_a_bridge_cannot_switch_the_demand_off_by_a_file_it_carries(
    bridge: Bridge, mac: Clone
) -> None:
    settings = mac.home / "bridgehead" / "config"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text("[rigs]\nrequire_council = true\n")
    mac.rig(*SEND, stdin="Built.\n").ok()
    assert mac.rig("verify").code == 1

    (mac.path / "bridgehead.toml").write_text("[rigs]\nrequire_council = false\n")

    assert mac.rig("verify").code == 1


def test_a_rig_that_knows_of_no_councils_judges_no_results(mac: Clone) -> None:
    rig = make_rig(str(mac.path), pytest.fail)

    with pytest.raises(AssertionError, match="without `reviews`"):
        rig.reviews.are_required()
