"""Speakers take turns at the assistant, and what one of them says costs the others nothing."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from bridgehead.bus.assistant import host
from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.assistant.assistant import (
    Ask,
    Assistant,
    AssistantConfig,
    Cancel,
    Defer,
    Emit,
)
from bridgehead.bus.interfaces import AgentAnswer, AgentQuestion
from bridgehead.bus.wire.message import Message
from bridgehead.contract.fencing import Fence
from bus.support.running import run, until
from bus.support.serving import served_bus


def said(speaker: str, text: str = "hi") -> Message:
    context = {"source": speaker, "session": {"session_id": f"of-{speaker}"}}
    return Message("ovos.utterance.handle", {"utterances": [text]}, context)


def asked(effects: list[Any]) -> list[str]:
    return [effect.text for effect in effects if isinstance(effect, Ask)]


def spoken(effects: list[Any]) -> list[str]:
    return [
        effect.message.data["utterance"] for effect in effects if _is_speech(effect)
    ]


def _is_speech(effect: object) -> bool:
    return isinstance(effect, Emit) and effect.message.type == "ovos.utterance.speak"


def test_the_slow_questions_of_one_speaker_leave_places_for_the_others() -> None:
    assistant = Assistant()
    apologies = 0
    for number in range(16):
        apologies += len(spoken(assistant.received(said("loud", f"l{number}"), 0)))
    assert apologies == 4  # four run, eight wait, nobody keeps more than that
    for number in range(5):
        assert asked(assistant.received(said(f"quiet{number}", "q"), 1)) == ["q"]


def test_a_free_place_goes_to_the_next_speaker_in_turn() -> None:
    assistant = Assistant(AssistantConfig(max_running=2, running_each=2))
    assert asked(assistant.received(said("a", "a1"), 0)) == ["a1"]
    assert asked(assistant.received(said("a", "a2"), 0)) == ["a2"]
    for text in ("a3", "a4", "b1", "c1"):
        assert assistant.received(said(text[0], text), 0) == []
    order = [
        asked(assistant.answered(f"r{number}", "x", now=1.0)) for number in range(1, 7)
    ]
    assert order == [["a3"], ["b1"], ["c1"], ["a4"], [], []]


def test_a_question_that_waits_too_long_is_apologised_for_and_ends() -> None:
    assistant = Assistant(AssistantConfig(max_running=1, timeout_s=10))
    assistant.received(said("a", "slow"), 0)
    assistant.received(said("b", "waits"), 5)
    assert assistant.next_deadline() == 10
    effects = assistant.tick(10)
    assert effects[0] == Cancel("r1") and asked(effects) == ["waits"]
    assert assistant.next_deadline() == 20  # it has its whole time from now on
    assistant.received(said("c", "waits, too"), 11)
    effects = assistant.tick(21)
    assert len(spoken(effects)) == 2 and asked(effects) == []
    assert assistant.next_deadline() is None


def named(speaker: str, word: str) -> Message:
    message = said(speaker, word)
    return Message(
        message.type, message.data, {**message.context, "utterance_id": word}
    )


def test_a_question_that_comes_by_way_of_two_bridges_is_asked_once() -> None:
    assistant = Assistant(AssistantConfig(max_running=2))
    assert asked(assistant.received(named("a", "u1"), 0)) == ["u1"]
    assert assistant.received(named("a", "u1"), 0) == []
    assert asked(assistant.received(named("b", "u1"), 0)) == ["u1"], (
        "somebody else's has the same name"
    )
    assert (
        assistant.received(named("a", "u2"), 0)
        == assistant.received(named("a", "u2"), 0)
        == []
    )
    assert asked(assistant.answered("r1", "x", now=1.0)) == ["u2"]
    assert asked(assistant.answered("r2", "x", now=1.0)) == [], (
        "what waits was not asked twice either"
    )
    assert asked(assistant.received(named("a", "u1"), 2)) == ["u1"], (
        "it has been answered, and is asked for again"
    )


def test_a_question_that_is_answered_later_may_be_asked_again() -> None:
    assistant = Assistant(AssistantConfig(later_s=60, timeout_s=10))
    assistant.received(named("a", "u1"), 0)
    assert any(isinstance(effect, Defer) for effect in assistant.tick(10))
    assert asked(assistant.received(named("a", "u1"), 11)) == ["u1"]


def test_a_stop_ends_what_waits_in_the_session_and_nothing_else() -> None:
    assistant = Assistant(AssistantConfig(max_running=1))
    for speaker in ("a", "a", "b"):
        assistant.received(said(speaker, speaker), 0)
    stop = Message("ovos.stop", {}, {"session": {"session_id": "of-a"}})
    effects = assistant.received(stop, 1)
    ended = [
        e.message.context["session"]["session_id"]
        for e in effects
        if isinstance(e, Emit)
    ]
    assert ended == ["of-a", "of-a"] and asked(effects) == ["b"]


def test_where_too_many_wait_the_newest_of_the_loudest_goes() -> None:
    assistant = Assistant(AssistantConfig(max_running=1, max_waiting=3))
    for speaker in ("x", "a", "a", "a"):
        assistant.received(said(speaker, speaker), 0)
    effects = assistant.received(said("b", "b"), 0)
    assert spoken(effects) == [
        "Too many questions wait for an answer; wait for one of them."
    ]
    assert [e.message.context["destination"] for e in effects if _is_speech(e)] == ["a"]
    assert len([e for e in effects if isinstance(e, Emit)]) == 2  # and its end marker


def test_an_utterance_that_is_too_long_is_not_asked() -> None:
    assistant = Assistant(AssistantConfig(max_text=10))
    effects = assistant.received(said("a", "x" * 11), 0)
    assert asked(effects) == [] and spoken(effects) == [
        "Sorry, that was too long for me."
    ]
    assert asked(assistant.received(said("a", "x" * 10), 0)) == ["x" * 10]


def test_long_texts_are_fenced_beside_the_loop_and_very_long_ones_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: which characters were looked at by the thread that everybody shares."""
    on_loop, beside = [0], [0]
    wrap = Fence.wrap

    def counting(self: Fence, text: str, **options: Any) -> str:
        counter = (
            on_loop if threading.current_thread() is threading.main_thread() else beside
        )
        counter[0] += len(text)
        return wrap(self, text, **options)

    monkeypatch.setattr(Fence, "wrap", counting)

    async def main() -> None:
        agent = ScriptedAgent(otherwise="ok")
        async with (
            served_bus(tmp_path, agent=agent) as server,
            await server.satellite("k", limits={"burst": 1000}) as satellite,
        ):
            for _ in range(8):
                assert (
                    await satellite.ask("ü" * 500_000)
                ).text == "Sorry, that was too long for me."
            assert (on_loop, beside, agent.asked) == ([0], [0], [])
            for _ in range(3):
                assert (await satellite.ask("ü" * 15_000)).text == "ok"
            assert on_loop == [0]
            assert beside[0] <= 3 * 15_000 + 3 * host.KEPT_TEXT + 3 * len("ok")

    run(main())


def test_one_participant_with_sixteen_slow_questions_does_not_stop_another(
    tmp_path: Path,
) -> None:
    class SlowForOne:
        def __init__(self) -> None:
            self.begun = 0
            self.go_on = asyncio.Event()

        async def ask(self, question: AgentQuestion) -> AgentAnswer:
            if question.text == "slow":
                self.begun += 1
                await self.go_on.wait()
            return AgentAnswer("done")

    async def main() -> None:
        agent = SlowForOne()
        async with (
            served_bus(tmp_path, agent=agent) as server,
            await server.satellite("loud") as loud,
            await server.satellite("quiet") as quiet,
        ):
            assert (await quiet.ask("quick")).text == "done"
            for _ in range(16):
                await loud.say("slow")
            await until(lambda: agent.begun == 4)
            for _ in range(5):
                assert (await quiet.ask("quick")).text == "done"
            agent.go_on.set()

    run(main())
