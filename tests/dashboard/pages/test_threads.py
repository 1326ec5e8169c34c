"""Threads in the browser's eyes: which are shown, what speaks for each envelope, what a reply does and does not do."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridgehead.assembly.council.reviews import CouncilReviews
from bridgehead.assembly.rigs.clones import clone_id
from bridgehead.assembly.rigs.rig import make_rig
from bridgehead.assembly.rigs.views import PAGE_LENGTH
from bridgehead.assembly.rigs.views_cache import Cache, cached_inbox
from bridgehead.contract.words import Verdict
from bridgehead.dashboard.pages.threads import letters_of, marks_of
from bridgehead.dashboard.templating import static_file
from bridgehead.rigs.operations.drafts import draft_send
from bridgehead.rigs.rig import Author
from bridgehead.rigs.trust.council_mark import CouncilMark, with_mark
from dashboard.support.rig_worlds import (
    HOSTILE,
    MARKUP,
    RigWorld,
    at_home,
    hostile_envelope,
    make_world,
)
from dashboard.support.served import OpenDashboard, open_dashboard
from support.rig_bridges import needs_ssh_keygen, with_signing_key


@dataclass
class RigsAndPages:
    web: OpenDashboard
    world: RigWorld

    def page(self, path: str, status: int = 200) -> str:
        answer = self.web.client.get(path)
        assert answer.status_code == status, answer.text
        return answer.text

    def note(self, answer: object) -> str:
        """What the page after an action says."""
        assert getattr(answer, "status_code", None) == 303, getattr(
            answer, "text", answer
        )
        shown = self.page(str(answer.headers["location"]))  # type: ignore[attr-defined]
        found = re.search(r'<p class="note[^"]*" role="[a-z]+">(.*?)</p>', shown)
        assert found is not None
        return html.unescape(found[1])


@pytest.fixture(scope="module")
def rigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RigsAndPages]:
    """Two rigs, one thread in which one waits for the other's answer."""
    folder = tmp_path_factory.mktemp("threads")
    with (
        at_home(folder / "bridge" / "home", folder / "web" / "home"),
        open_dashboard(folder / "web") as web,
    ):
        world = make_world(folder / "bridge")
        world.mac.open("cuda-build-03")
        world.mac.send(
            "REQUEST",
            "cuda-build-03",
            "win-5080",
            "Build it.\n",
            tldr="build the kernels",
        )
        world.win.send(
            "REQUEST",
            "cuda-build-03",
            "mac-m5max",
            "Which toolkit?\n",
            tldr="which toolkit?",
        )
        world.mac.pull()
        yield RigsAndPages(web, world)


def envelopes(text: str) -> list[str]:
    return re.findall(r'<li class="envelope [^"]*" id="envelope-(\d+)"', text)


def test_the_list_holds_known_clones_with_their_threads_and_what_waits(
    rigs: RigsAndPages, tmp_path: Path
) -> None:
    shown = rigs.page("/threads")

    assert shown.count(f'href="{rigs.world.mac.address}/cuda-build-03"') == 1
    assert "cuda-bridge" in shown and "far" in shown
    row = shown.split(f'href="{rigs.world.mac.address}/cuda-build-03"')[1].split(
        "</li>"
    )[0]
    for words in (
        "which toolkit?",
        "waits for you",
        "REQUEST",
        "win-5080",
        "2 envelopes",
    ):
        assert words in row
    assert "rig <span" in rigs.page(rigs.world.mac.address)
    filtered = rigs.page(f"{rigs.world.mac.address}?state=closed")
    assert "No threads match this filter" in filtered


@pytest.mark.parametrize(
    "path",
    [
        "/threads/0123456789",
        "/threads/{unknown}",
        "/threads/{unknown}/cuda-build-03",
        "/threads/{mac}/no-such-thread",
        "/threads/{mac}/.bridge",
        "/threads/{mac}/%2e%2e",
        "/threads/{mac}/%2e%2e%2f%2e%2e%2fetc",
        "/threads/{mac}/..%5c..",
        "/threads/{mac}/CUDA-build-03",
        "/threads/{mac}/%00",
        "/threads/%2Fetc/passwd",
        "/threads/{path}/cuda-build-03",
    ],
)
def test_only_threads_of_clones_the_record_knows_can_be_named(
    rigs: RigsAndPages, path: str, tmp_path: Path
) -> None:
    """A repository with a rig that never told the record is not opened, whoever asks."""
    (tmp_path / ".bridge").mkdir()
    (tmp_path / ".bridge" / "config.yaml").write_text("rig_id: stranger\n")
    names = {
        "mac": rigs.world.mac.address.rpartition("/")[2],
        "unknown": clone_id(str(tmp_path)),
    }

    answer = rigs.web.client.get(
        path.format(**names, path=str(tmp_path).replace("/", "%2F"))
    )

    assert answer.status_code == 404, answer.text
    assert "stranger" not in answer.text and "root:" not in answer.text


@needs_ssh_keygen
def test_each_envelope_says_whether_it_is_verified_unverified_or_broken_and_why(
    rigs: RigsAndPages, tmp_path: Path
) -> None:
    mac, win = rigs.world.mac, rigs.world.win
    key = with_signing_key(win.clone, tmp_path)
    win.clone.git("config", "commit.gpgsign", "true")
    (tmp_path / "signers").write_text(f"win-5080 {key.read_text()}")
    mac.clone.git("config", "gpg.ssh.allowedSignersFile", str(tmp_path / "signers"))
    mac.open("marks")
    mac.send("REQUEST", "marks", "win-5080", "first\n")
    win.send("ACK", "marks", "mac-m5max", "signed\n")
    win.clone.git("config", "commit.gpgsign", "false")
    mac.send("STATE", "marks", "win-5080", "to be changed\n")
    state = mac.clone.path / "marks" / "STATE.md"
    mac.commit_file(
        "marks/STATE.md", state.read_text().replace("to be changed", "changed")
    )

    shown = rigs.page(f"{mac.address}/marks")

    marks = re.findall(
        r'class="label (verified|unverified|broken)".*?class="soft">(.*?)</span>',
        shown,
        re.S,
    )
    assert [mark for mark, _ in marks] == ["unverified", "verified", "broken"]
    assert (
        "not signed" in marks[0][1]
        and "signed by the key of whom it is from" in marks[1][1]
    )
    assert (
        "changed after it was hashed" in marks[2][1]
        and "changed after it was committed" in marks[2][1]
    )
    (tmp_path / "signers").write_text("")
    assert "a key that is not trusted here" in rigs.page(f"{mac.address}/marks"), (
        "the list of signers changed"
    )


def test_a_replayed_turn_is_broken_and_the_one_it_copies_is_not(
    rigs: RigsAndPages,
) -> None:
    mac = rigs.world.mac
    fields = "from: ops-relay\nto: mac-m5max\ndate: 2026-05-15\nstatus: ▶ said\ntype: ACK\nnonce: 01HZX\n"
    for thread in ("said-first", "said-again"):
        mac.commit_file(
            f"{thread}/ACK.md", f"---\n{fields}thread: {thread}\n---\nyes\n"
        )

    first, again = (
        rigs.page(f"{mac.address}/{thread}") for thread in ("said-first", "said-again")
    )

    assert "may be a replay" in again and "may be a replay" not in first
    assert "its commit is not signed" in first


def test_heads_stand_side_by_side_until_a_reply_takes_them_in(
    rigs: RigsAndPages,
) -> None:
    mac, win = rigs.world.mac, rigs.world.win
    mac.open("api-shape")
    asked = mac.send("REQUEST", "api-shape", "win-5080", "Which shape?\n")
    win.send(
        "DECISIONS", "api-shape", "mac-m5max", "REST\n", references=[asked.commit_sha]
    )
    mac.send("STATE", "api-shape", "win-5080", "seen\n", references=[asked.commit_sha])

    shown = rigs.page(f"{mac.address}/api-shape")
    assert shown.count('<article class="head ') == 2 and "This thread diverged" in shown

    rigs.web.post(
        f"{mac.address}/api-shape",
        type="ACK",
        to="win-5080",
        text="REST it is",
        push="yes",
    )
    assert "This thread diverged" not in rigs.page(f"{mac.address}/api-shape")


def test_a_result_is_linked_to_its_council_where_a_report_here_confirms_it(
    rigs: RigsAndPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = (
        CouncilMark(name, Verdict.CONCERNS, "0" * 64) for name in ("k3v9qa", "abroad")
    )
    monkeypatch.setattr(
        CouncilReviews,
        "known_mark",
        lambda _self, name: here if name == here.council else None,
    )
    rigs.world.mac.open("reviewed")
    rigs.world.mac.send("REQUEST", "reviewed", "win-5080", "Look at it.\n")
    for mark in (here, elsewhere):
        rigs.world.mac.send("RESULT", "reviewed", "win-5080", with_mark("Done.", mark))

    shown = rigs.page(f"{rigs.world.mac.address}/reviewed")

    assert (
        '<a href="/councils/k3v9qa">k3v9qa</a>: <span class="label CONCERNS">CONCERNS</span>'
        in shown
    )
    assert (
        "/councils/abroad" not in shown
        and "not confirmed: no such report on this machine" in shown
    )


def test_a_long_thread_comes_in_pages_the_last_one_first(rigs: RigsAndPages) -> None:
    mac, total = rigs.world.mac, PAGE_LENGTH * 2 + 7
    folder = mac.clone.path / "long-one"
    folder.mkdir()
    for number in range(total):
        draft = draft_send(
            Author("mac-m5max"),
            "STATE",
            "long-one",
            ["win-5080"],
            "2026-05-15",
            body="x\n",
        )
        (folder / f"STATE-{number + 100}.md").write_text(draft.text)
    mac.clone.git("add", "long-one")
    mac.clone.git("commit", "-q", "-m", "many")

    last = rigs.page(f"{mac.address}/long-one")
    assert envelopes(last) == [
        str(number) for number in range(PAGE_LENGTH * 2 + 1, total + 1)
    ]
    earlier = re.search(r'rel="prev" href="([^"]+)"', last)
    assert earlier is not None
    before = rigs.page(html.unescape(earlier[1]))
    assert (
        envelopes(before)[0] == str(PAGE_LENGTH + 1)
        and len(envelopes(before)) == PAGE_LENGTH
    )
    assert "No more envelopes." in rigs.page(f"{mac.address}/long-one?start=999999")
    assert envelopes(rigs.page(f"{mac.address}/long-one?start=-1")) == envelopes(last)


def test_a_reply_is_what_rig_send_would_have_sent(rigs: RigsAndPages) -> None:
    mac, win = rigs.world.mac, rigs.world.win
    mac.open("replies")
    mac.send("REQUEST", "replies", "win-5080", "Ready?\n")

    said = rigs.note(
        rigs.web.post(
            f"{mac.address}/replies",
            type="STATE",
            to="win-5080, pi-lab",
            text="Soon.",
            tldr="soon",
            push="yes",
        )
    )

    assert said.startswith("STATE sent to win-5080, pi-lab as replies/STATE.md (")
    win.pull()
    sent = (win.clone.path / "replies" / "STATE.md").read_text()
    assert (
        "from: mac-m5max" in sent and "tldr: soon" in sent and sent.endswith("Soon.\n")
    )
    kept = rigs.note(
        rigs.web.post(f"{mac.address}/replies", type="ACK", to="win-5080", text="later")
    )
    assert "not pushed" in kept
    taken_on = {
        "type": "ACK",
        "to": "win-5080",
        "text": "tomorrow",
        "by": "1d",
        "push": "yes",
    }
    assert "ACK sent to win-5080" in rigs.note(
        rigs.web.post(f"{mac.address}/replies", **taken_on)
    )
    assert any(
        "by 20" in one.read_text()
        for one in (mac.clone.path / "replies").glob("ACK*.md")
    )
    assert "bridgehead rig send TYPE --thread replies --to" in rigs.page(
        f"{mac.address}/replies"
    )
    warned = rigs.note(
        rigs.web.post(
            f"{mac.address}/replies",
            type="ACK",
            to="win-5080",
            text="later",
            tldr="x" * 300,
        )
    )
    assert "ACK" in warned and "warning: tldr is 300 chars" in warned


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"to": " , "}, "--to"),
        ({"to": "Not A Rig"}, "canonical kebab-case"),
        ({"type": "SHOUT"}, "unknown message type"),
        ({"type": "ACK", "by": "soon"}, "--by must be a time"),
        ({"text": "  \n"}, "the reply is empty"),
        ({"text": "key AKIAIOSFODNN7EXAMPLQ here"}, "looks like a secret"),
    ],
)
def test_a_refused_reply_leaves_nothing_behind_and_keeps_what_was_typed(
    rigs: RigsAndPages, fields: dict[str, str], reason: str
) -> None:
    mac = rigs.world.mac
    head = mac.clone.git("rev-parse", "HEAD")
    typed = {
        "type": "ACK",
        "to": "win-5080",
        "text": "my <long> words",
        "push": "yes",
        **fields,
    }

    answer = rigs.web.post(f"{mac.address}/cuda-build-03", **typed)

    assert answer.status_code == 422 and reason in html.unescape(answer.text)
    assert f">{html.escape(typed['text'])}</textarea>" in answer.text
    assert ("allow_secret" in answer.text) == ("secret" in reason)
    assert (
        mac.clone.git("rev-parse", "HEAD") == head
        and mac.clone.git("status", "--porcelain") == ""
    )


def test_what_looks_like_a_secret_is_sent_when_somebody_says_it_is_none(
    rigs: RigsAndPages,
) -> None:
    mac = rigs.world.mac
    fields = {
        "type": "ACK",
        "to": "win-5080",
        "text": "key AKIAIOSFODNN7EXAMPLQ",
        "allow_secret": "yes",
    }

    assert "ACK sent" in rigs.note(
        rigs.web.post(f"{mac.address}/cuda-build-03", **fields)
    )


def test_a_commit_that_nobody_else_got_is_not_called_a_failure(
    rigs: RigsAndPages,
) -> None:
    mac = rigs.world.mac
    url = mac.clone.git("remote", "get-url", "--push", "origin")
    mac.clone.git("remote", "set-url", "--push", "origin", f"{url}-gone")
    try:
        fields = {"type": "ACK", "to": "win-5080", "text": "only here", "push": "yes"}
        said = rigs.note(rigs.web.post(f"{mac.address}/cuda-build-03", **fields))
    finally:
        mac.clone.git("remote", "set-url", "--push", "origin", url)

    assert (
        "is committed" in said
        and "but not pushed" in said
        and "do not send it again" in said
    )
    assert "only here" in rigs.page(f"{mac.address}/cuda-build-03")


def test_what_waits_is_answered_on_its_envelope_and_once(rigs: RigsAndPages) -> None:
    mac, win = rigs.world.mac, rigs.world.win
    mac.open("waiting")
    mac.send("REQUEST", "waiting", "win-5080", "hello\n")
    asked = win.send("REQUEST", "waiting", "mac-m5max", "what now?\n")
    mac.pull()
    rigs.web.dashboard.context.forget_waiting()
    action = re.search(
        r'action="([^"]+/answer/[^"#]+)#', rigs.page(f"{mac.address}/waiting")
    )
    assert action is not None

    empty = rigs.web.post(action[1], text=" ")
    assert empty.status_code == 422 and "the answer is empty" in empty.text
    assert "answered" in rigs.note(rigs.web.post(action[1], text="go on"))

    answered = (mac.clone.path / "waiting" / "RESPONSE.md").read_text()
    assert asked.commit_sha in answered and "to: win-5080" in answered
    again = rigs.web.post(action[1], text="again")
    assert (
        again.status_code == 422
        and "is no longer open" in again.text
        and ">again<" in again.text
    )
    assert not (mac.clone.path / "waiting" / "RESPONSE-2.md").exists()
    assert "waits for you" not in rigs.page(f"{mac.address}/waiting")


def test_nothing_another_rig_writes_becomes_markup(rigs: RigsAndPages) -> None:
    mac = rigs.world.mac
    mac.commit_file("hostile/REQUEST.md", hostile_envelope("hostile"))
    mac.commit_file(
        "hostile/<img src=x onerror=alert(1)>.md", hostile_envelope("hostile")
    )

    for path in ("/threads", mac.address, f"{mac.address}/hostile", "/"):
        shown = rigs.page(path)
        for attack in MARKUP:
            assert attack not in shown, path
        assert "<img src=x" not in shown
    shown = rigs.page(f"{mac.address}/hostile")
    assert "the end" in shown and "[U+202E]" in shown and "{{ 7*7 }}" in shown
    assert HOSTILE[0] in html.unescape(shown)


def test_a_broken_clone_is_named_and_the_others_are_shown(rigs: RigsAndPages) -> None:
    config = rigs.world.win.clone.path / ".bridge" / "config.yaml"
    kept = config.read_text()
    config.write_text("rig_id: [broken\n")
    try:
        shown = rigs.page("/threads")
    finally:
        config.write_text(kept)

    assert "cuda-build-03" in shown and 'class="note bad"' in shown


def test_a_clone_that_breaks_while_its_debts_are_known_is_named_too(
    rigs: RigsAndPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rigs.world.win.clone.path
    known = cached_inbox(make_rig(str(path), lambda _text: None))
    assert known[1].owes
    kept = (path / ".bridge" / "config.yaml").read_text()
    inbox_of = {str(path): known}
    monkeypatch.setattr(
        "bridgehead.assembly.rigs.inbox.cached_inbox",
        lambda rig: inbox_of.get(rig.repository.root) or cached_inbox(rig),
    )
    (path / ".bridge" / "config.yaml").write_text("rig_id: [broken\n")
    try:
        shown = rigs.page("/threads")
    finally:
        (path / ".bridge" / "config.yaml").write_text(kept)

    assert "cuda-build-03" in shown and 'class="note bad"' in shown


def test_an_answer_is_remembered_while_its_state_is_the_same_and_the_oldest_goes_first() -> (
    None
):
    memory: Cache[str, int] = Cache(2)
    assert [
        memory.get_or_make(key, "then", lambda value=value: value)
        for key, value in (("a", 1), ("b", 2))
    ] == [1, 2]
    assert memory.get_or_make("a", "then", lambda: pytest.fail("it was known")) == 1
    assert memory.get_or_make("c", "then", lambda: 3) == 3

    assert [
        memory.get_or_make(key, "then", lambda: pytest.fail("it was known"))
        for key in "ac"
    ] == [1, 3]
    assert (
        memory.get_or_make("b", "then", lambda: 4) == 4
    )  # the one used longest ago was forgotten
    assert memory.get_or_make("c", "now", lambda: 5) == 5


@pytest.mark.parametrize("name", ["violet", "teal", "plum", "text"])
def test_the_colours_of_rigs_can_be_read_on_every_ground(name: str) -> None:
    """AA asks for 4.5 to 1; a stylesheet names each colour for light, for a dark system and for dark by choice."""
    style = static_file("style.css").content.decode()
    grounds = list(
        zip(
            *(
                re.findall(rf"--{ground}: (#\w+)", style)
                for ground in ("ground", "card")
            ),
            strict=True,
        )
    )
    colours = re.findall(rf"--{name}: (#\w+)", style)

    assert len(colours) == len(grounds) == 3
    assert all(
        contrast(colour, ground) >= 4.5
        for colour, both in zip(colours, grounds, strict=True)
        for ground in both
    )


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_rigs_are_told_apart_by_letters_and_sixteen_kinds_of_line() -> None:
    marks = marks_of(f"rig-{number}" for number in range(16))

    assert len({mark.css_classes for mark in marks.values()}) == 16
    assert [letters_of(rig) for rig in ("win-5080", "mac", "m", "", "-")] == [
        "W5",
        "MA",
        "M",
        "?",
        "?",
    ]
