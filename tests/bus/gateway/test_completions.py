"""The OpenAI-compatible door, used with the official client over real sockets."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import openai
import pytest

from bridgehead.bus.assistant.agents import ChatCompletionsAgent, ScriptedAgent
from bridgehead.bus.assistant.assistant import SORRY
from bridgehead.bus.gateway.completions import read_completion
from bus.support.running import free_port, run, until
from bus.support.serving import Served, http, served_bus
from support.console_blocks import Step, environment, matches, steps
from support.console_blocks import run as run_steps
from support.installed import machine

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "openai.md"


def client_of(server: Served, token: str | None) -> openai.AsyncOpenAI:
    url = f"http://{server.gateway_address}/v1"
    return openai.AsyncOpenAI(base_url=url, api_key=token or "none", max_retries=0)


async def read_request(reader: asyncio.StreamReader) -> None:
    """Take a whole request, so that closing after the answer resets nothing."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    await reader.readexactly(
        int(head.partition("content-length:")[2].partition("\r\n")[0])
    )


def said(*texts: str) -> list[Any]:
    """A conversation as its client keeps it: what was asked and answered in turn."""
    return [
        {"role": ("user", "assistant")[number % 2], "content": text}
        for number, text in enumerate(texts)
    ]


def test_the_official_client_asks_and_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            token = server.enrol(
                "webui", token=True, mode="manage", role="opaque"
            ).token
            async with client_of(server, token) as client:
                models = [model.id async for model in client.models.list()]
                assert models == ["assistant"]
                assert (
                    await client.models.retrieve("assistant")
                ).owned_by == "bridgehead"
                answer = await client.chat.completions.create(
                    model="assistant", messages=said("what time is it")
                )
                choice = answer.choices[0]
                assert (choice.message.content, choice.finish_reason) == (
                    "You said: what time is it",
                    "stop",
                )
            await until(lambda: not list(server.relay.connected))

    run(main())


def test_an_answer_comes_in_pieces_where_they_are_asked_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            token = server.enrol("webui", token=True, mode="manage").token
            async with client_of(server, token) as client:
                stream = await client.chat.completions.create(
                    model="assistant",
                    messages=said("hello"),
                    stream=True,
                    stream_options={"include_usage": True},
                )
                pieces = [piece async for piece in stream]
            words = "".join(
                piece.choices[0].delta.content or ""
                for piece in pieces
                if piece.choices
            )
            assert words == "You said: hello"
            assert [
                piece.choices[0].finish_reason for piece in pieces if piece.choices
            ][-1] == "stop"
            assert pieces[-1].usage is not None

    run(main())


def test_tokens_of_the_model_reach_the_client_while_the_next_ones_are_made(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        seen = asyncio.Event()

        async def model(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            await read_request(reader)
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            )
            for token in ("No", "on", "."):
                event = {"choices": [{"index": 0, "delta": {"content": token}}]}
                writer.write(f"data: {json.dumps(event)}\n\n".encode())
                await writer.drain()
                if token == "No":
                    await (
                        seen.wait()
                    )  # the second token is made when the first has been shown
            writer.write(b"data: [DONE]\n\n")
            writer.close()

        endpoint = await asyncio.start_server(model, "127.0.0.1", 0)
        agent = ChatCompletionsAgent(
            f"http://127.0.0.1:{endpoint.sockets[0].getsockname()[1]}", model="m"
        )
        async with endpoint, served_bus(tmp_path, agent=agent) as server:
            token = server.enrol("webui", token=True, mode="manage").token
            async with client_of(server, token) as client:
                pieces = []
                async for piece in await client.chat.completions.create(
                    model="assistant", messages=said("what time is it"), stream=True
                ):
                    pieces.append(piece.choices[0].delta.content or "")
                    seen.set()
            assert pieces[0] == "No" and "".join(pieces) == "Noon."
            await agent.close()

    run(main())


@pytest.mark.parametrize(
    ("kind", "answered", "heard"),
    [
        (
            "text/event-stream",
            b'data: {"choices": [{"delta": {"content": "No"}}]}\n\ndata: {"error": {}}\n\n',
            "No",
        ),
        ("text/event-stream", b"data: [[[\n\n", ""),
        (
            "application/json",
            b'{"choices": [{"message": {"content": "Noon."}}]}',
            "Noon.",
        ),
    ],
    ids=["breaks-off", "nonsense", "does-not-stream"],
)
def test_a_model_that_streams_badly_or_not_at_all_still_gives_an_answer(
    tmp_path: Path, kind: str, answered: bytes, heard: str
) -> None:
    async def main() -> None:
        async def model(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            await read_request(reader)
            writer.write(
                f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode()
            )
            writer.write(answered)
            writer.close()

        endpoint = await asyncio.start_server(model, "127.0.0.1", 0)
        agent = ChatCompletionsAgent(
            f"http://127.0.0.1:{endpoint.sockets[0].getsockname()[1]}", model="m"
        )
        async with endpoint, served_bus(tmp_path, agent=agent) as server:
            token = server.enrol("webui", token=True, mode="manage").token
            async with client_of(server, token) as client:
                stream = await client.chat.completions.create(
                    model="x", messages=said("hi"), stream=True
                )
                words = "".join(
                    [piece.choices[0].delta.content or "" async for piece in stream]
                )
            assert (
                words == heard
                if heard == "Noon."
                else words == f"{heard}\n{SORRY}".strip()
            )
            await agent.close()

    run(main())


def test_each_conversation_has_a_session_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        agent = ScriptedAgent()
        async with served_bus(tmp_path, agent=agent) as server:
            token = server.enrol("webui", token=True, mode="manage").token
            async with client_of(server, token) as client:
                ask = client.chat.completions.create
                await ask(model="assistant", messages=said("my name is Ada"))
                await ask(
                    model="assistant",
                    messages=said(
                        "my name is Ada", "You said: my name is Ada", "who am I"
                    ),
                )
                await ask(model="assistant", messages=said("who are you"))
                await ask(
                    model="assistant", messages=said("my name is Ada"), user="another"
                )
        sessions = [question.session_id for question in agent.asked]
        assert sessions[0] == sessions[1]
        assert len(set(sessions)) == 3
        assert "my name is Ada" in agent.asked[1].prompt
        assert "my name is Ada" not in agent.asked[2].prompt

    run(main())


def test_the_responses_of_the_official_client_continue_one_conversation(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        agent = ScriptedAgent()
        async with served_bus(tmp_path, agent=agent) as server:
            token = server.enrol("webui", token=True, mode="manage").token
            async with client_of(server, token) as client:
                first = await client.responses.create(
                    model="assistant", input="my name is Ada"
                )
                assert (first.output_text, first.status) == (
                    "You said: my name is Ada",
                    "completed",
                )
                ask = client.responses.create
                await ask(
                    model="assistant", input="who am I", previous_response_id=first.id
                )
                kept = [
                    *said("my name is Ada"),
                    *(item.model_dump() for item in first.output),
                    *said("who am I"),
                ]
                await ask(model="assistant", input=kept)
                await ask(model="assistant", input="who am I")
                await ask(model="assistant", input="who am I", instructions="be brief")
                with pytest.raises(
                    openai.BadRequestError, match="not the ID of a response"
                ):
                    await ask(
                        model="assistant",
                        input="hi",
                        previous_response_id="resp_elsewhere",
                    )
                with pytest.raises(openai.BadRequestError, match="input must be"):
                    await ask(model="assistant")
        sessions = [question.session_id for question in agent.asked]
        assert sessions[0] == sessions[1] == sessions[2] and len(set(sessions)) == 3
        assert "my name is Ada" in agent.asked[1].prompt

    run(main())


def test_a_response_comes_in_pieces_with_every_event_the_official_client_waits_for(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            token = server.enrol("webui", token=True, mode="manage").token
            async with client_of(server, token) as client:
                stream = await client.responses.create(
                    model="assistant", input="hello", stream=True
                )
                kinds = [
                    (event.sequence_number, event.type.removeprefix("response."))
                    async for event in stream
                ]
                async with client.responses.stream(
                    model="assistant", input="hello"
                ) as events:
                    pieces = [
                        event.delta
                        async for event in events
                        if event.type == "response.output_text.delta"
                    ]
                    final = await events.get_final_response()
        begun = [
            "created",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
        ]
        ended = [
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]
        assert kinds == list(enumerate([*begun, *ended]))
        assert "".join(pieces) == final.output_text == "You said: hello"

    run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_a_bus_on_which_nobody_answers_is_an_error_the_client_knows(
    tmp_path: Path, stream: bool
) -> None:
    async def main() -> None:
        options = {"hook_wait_s": 0.05, "assistant_timeout_s": 0}
        async with served_bus(tmp_path, **options) as server:
            token = server.enrol("webui", token=True, mode="manage").token
            async with client_of(server, token) as client:
                with pytest.raises(
                    openai.InternalServerError, match="did not answer in time"
                ) as caught:
                    await client.chat.completions.create(
                        model="x", messages=said("hello"), stream=stream
                    )
            assert caught.value.status_code == 504
            async with client_of(server, token) as client:
                with pytest.raises(
                    openai.InternalServerError, match="did not answer in time"
                ):
                    await client.responses.create(
                        model="x", input="hello", stream=stream
                    )

    run(main())


def test_a_wrong_key_and_a_participant_with_a_session_of_its_own_are_turned_away(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            satellite = server.enrol("kitchen", token=True).token
            async with client_of(server, "webui.wrong") as client:
                with pytest.raises(
                    openai.AuthenticationError, match="token of a participant"
                ):
                    await client.chat.completions.create(
                        model="x", messages=said("hello")
                    )
            async with client_of(server, satellite) as client:
                with pytest.raises(openai.PermissionDeniedError, match="managing mode"):
                    await client.models.list()

    run(main())


def test_a_page_of_another_origin_is_turned_away_with_a_good_key(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served_bus(tmp_path, agent=ScriptedAgent()) as server:
            token = server.enrol("webui", token=True, mode="manage").token
            body = json.dumps({"messages": said("hello")}).encode()
            shown = {
                "Authorization": f"Bearer {token}",
                "Origin": "http://evil.example",
            }
            status, _, _ = await http(
                server.gateway_address, "POST", "/v1/chat/completions", body, **shown
            )
            assert status == 403
            status, _, answer = await http(
                server.gateway_address,
                "POST",
                "/v1/embeddings",
                body,
                Authorization=f"Bearer {token}",
            )
            assert (
                status == 404
                and "/v1/chat/completions" in json.loads(answer)["error"]["message"]
            )

    run(main())


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        ({}, "messages must be"),
        ({"messages": []}, "messages must be"),
        ({"messages": ["hi"]}, "messages must be"),
        (
            {"messages": [{"role": "assistant", "content": "hi"}]},
            "must be from the user",
        ),
        ({"messages": [{"role": "user", "content": " "}]}, "no text"),
        ({"messages": [{"role": "user"}]}, "only text"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image_url", "image_url": {}}],
                    }
                ]
            },
            "only text",
        ),
    ],
)
def test_what_is_no_question_is_refused_with_a_sentence(
    document: Any, sentence: str
) -> None:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    with pytest.raises(ValueError, match=sentence):
        read_completion(body, {})


def test_parts_of_text_are_one_question_and_a_chat_id_names_the_conversation() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    body = json.dumps(
        {"messages": [{"role": "user", "content": parts}], "stream": "yes"}
    ).encode()
    read = read_completion(body, {"x-openwebui-chat-id": "c1"})
    assert (read.text, read.stream) == ("one\ntwo", False)
    other = json.dumps({"messages": said("quite another beginning")}).encode()
    assert read_completion(other, {"x-openwebui-chat-id": "c1"}).channel == read.channel
    assert read_completion(other, {"x-openwebui-chat-id": "c2"}).channel != read.channel


def test_the_guide_does_what_it_shows(tmp_path: Path) -> None:
    """Its commands in one shell, then its Python as printed in the same one."""
    home, hub, gateway = machine(tmp_path), free_port(), free_port()
    shown = GUIDE.read_text(encoding="utf-8").replace("```console no-run", "```console")
    serve, *commands = steps(shown.replace("127.0.0.1:8182", f"127.0.0.1:{gateway}"))
    assert serve.command == "bridgehead bus serve --assistant scripted"
    [snippet] = re.findall(r"^```python\n(.*?)^```$", shown, re.MULTILINE | re.DOTALL)
    (home.project / "snippet.py").write_text(snippet)
    commands.append(
        Step("python snippet.py", ("You said: what time is it", "You said: who am I"))
    )
    places = {
        "BRIDGEHEAD_BUS_HUB_LISTEN": f"127.0.0.1:{hub}",
        "BRIDGEHEAD_BUS_LISTEN": f"127.0.0.1:{gateway}",
    }
    process = home.start("bus", "serve", "--json", "--assistant", "scripted", **places)
    try:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline(), process.stderr.read()
        around = {**environment(home.home, Path(sys.executable).parent), **places}
        results = run_steps(commands, home.project, around)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    for step, result in zip(commands, results, strict=True):
        assert (result.code, step.exit_code) == (0, 0), (
            f"$ {step.command}\n{result.output}"
        )
        assert matches(step.expected, result.output), (
            f"$ {step.command}\n{result.output}"
        )
