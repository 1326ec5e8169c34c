"""The flow vectors: every file of the folder is run here, or skipped by name."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bridgehead.errors import BridgeheadError
from bridgehead.exit_codes import ExitCode
from bridgehead.flows import (
    AgentInvocationError,
    AgentRequest,
    AgentResponse,
    CompletedPhase,
    MockAgentInvoker,
    ResponseMetadata,
    TemplateCreateState,
)
from bridgehead.flows.calls import Accepted, Failed, Verdict
from bridgehead.flows.definition import Flow
from bridgehead.flows.engine.context import PhasedContext
from bridgehead.flows.engine.engine import run_flow
from bridgehead.flows.engine.run_request import (
    RunInputs,
    RunOptions,
    RunRequest,
    RunResult,
)
from bridgehead.flows.errors import FlowFailed, FlowRefused
from bridgehead.flows.files.documents import is_supported, schema_of, validate
from bridgehead.flows.files.json_bytes import Unreadable, read_object
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.journals.base import Run
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.operations.drive import drive_loop
from bridgehead.flows.template_create.answers.judge import judge_of
from bridgehead.flows.words import (
    CHECKPOINT_FILES,
    RESPONSE_FILE,
    STATE_FILE,
    DocumentKind,
    Profile,
    RunStatus,
)
from bridgehead.host.clock import ManualClock
from support.vector_files import FOLDER, absent, load

FOREIGN_UID = 54321
SCHEMAS = (
    "agent-request.schema.json",
    "agent-response.schema.json",
    "template-create-state.schema.json",
)


def cases(name: str) -> list[Any]:
    """One parameter per case of a file; a visible skip when there is no such file."""
    document = load("flows", f"{name}.json")
    if document is None:
        return [absent("flows", f"{name}.json")]
    return [
        pytest.param(case, id=f"flows-{name}-{case.get('id', number)}")
        for number, case in enumerate(document)
    ]


def schemas() -> list[Any]:
    """One parameter per published schema; a visible skip for each of ours that is not among them."""
    names = {path.name for path in (FOLDER / "flows").glob("*.schema.json")}
    missing = [absent("flows", name) for name in SCHEMAS if name not in names]
    return [pytest.param(name, id=f"flows-{name}") for name in sorted(names)] + missing


# Documents ------------------------------------------------------------------------------------------------------------


READ = {"documents", "raw", "roundtrip", "mock", "drive", "payloads", "resume"}


def unread_files() -> list[Any]:
    """A visible skip for each file this suite does not know."""
    if not (FOLDER / "flows").is_dir():
        return [absent("flows")]
    names = sorted(
        path.stem
        for path in (FOLDER / "flows").glob("*.json")
        if not path.name.endswith(".schema.json")
    )
    skip = pytest.mark.skip(reason="no test reads this vector file")
    return [
        pytest.param(name, id=f"flows-{name}", marks=skip)
        for name in names
        if name not in READ
    ]


if UNREAD := unread_files():

    @pytest.mark.parametrize("name", UNREAD)
    def test_unread_file(name: str) -> None:
        raise AssertionError(f"{name} has no test")  # every parameter is a visible skip


@pytest.mark.parametrize("name", schemas())
def test_schemas(name: str) -> None:
    shipped = {schema_of(kind)["title"]: schema_of(kind) for kind in DocumentKind}
    published = load("flows", name)
    jsonschema.Draft7Validator.check_schema(published)
    assert shipped[published["title"]] == published


@pytest.mark.parametrize("case", cases("documents"))
def test_documents(case: dict[str, Any]) -> None:
    verdict = case["verdict"]
    for profile in Profile:
        problems = validate(case["doc"], DocumentKind(case["kind"]), profile)
        assert ("invalid" if problems else "valid") == verdict[profile], problems
        failures = sorted({(problem.path, problem.keyword) for problem in problems})
        assert failures == [
            (f["path"], f["keyword"]) for f in verdict.get(f"{profile}_failures", [])
        ]
    supported = not isinstance(case["doc"], dict) or is_supported(case["doc"])
    assert supported is not verdict.get("unsupported_version", False)


@pytest.mark.parametrize("case", cases("raw"))
def test_raw(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode()
    try:
        read_object(data)
    except Unreadable:
        readable = False
    else:
        readable = True
    assert readable is case["readable"]


CLASSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        AgentRequest,
        AgentResponse,
        ResponseMetadata,
        CompletedPhase,
        TemplateCreateState,
    )
}


def built(case: dict[str, Any]) -> Any:
    given = dict(case["input"])
    if isinstance(given.get("metadata"), dict):
        given["metadata"] = ResponseMetadata(**given["metadata"])
    if "completed_phases" in given:
        given["completed_phases"] = [
            CompletedPhase(**done) for done in given["completed_phases"]
        ]
    return CLASSES[case["class"]](**given)


OPERATIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "to_dict": lambda case: built(case).to_dict(),
    "to_file_dict": lambda case: built(case).to_file_dict(),
    "from_dict.to_dict": lambda case: (
        CLASSES[case["class"]].from_dict(case["input"]).to_dict()
    ),
    "get_confidence": lambda case: built(case).get_confidence(),
    "is_success": lambda case: built(case).is_success(),
}


@pytest.mark.parametrize("case", cases("roundtrip"))
def test_roundtrip(case: dict[str, Any]) -> None:
    operate = OPERATIONS[case["op"]]
    if "raises" in case:
        with pytest.raises(Exception) as caught:
            operate(case)
        assert type(caught.value).__name__ == case["raises"]
        return
    actual = operate(case)
    assert actual == case["expected"]
    assert type(actual) is type(case["expected"])
    if "expected_key_order" in case:
        assert list(actual) == case["expected_key_order"]


@pytest.mark.parametrize("case", cases("mock"))
def test_mock(case: dict[str, Any]) -> None:
    mock = (
        MockAgentInvoker(case["responses"])
        if "responses" in case
        else MockAgentInvoker()
    )
    if "add_response" in case:
        mock.add_response(*case["add_response"])
    if "add_response_from_dict" in case:
        mock.add_response_from_dict(*case["add_response_from_dict"])
    for call in case["calls"]:
        if call.get("reset"):
            mock.reset()
            continue
        named = (
            {"timeout_seconds": call["timeout_seconds"]}
            if "timeout_seconds" in call
            else {}
        )
        if "raises" in call:
            with pytest.raises(AgentInvocationError) as caught:
                mock.invoke(*call["invoke"], **named, **call.get("kwargs", {}))
            assert (type(caught.value).__name__, str(caught.value)) == (
                call["raises"],
                call["message"],
            )
        else:
            assert (
                mock.invoke(*call["invoke"], **named, **call.get("kwargs", {}))
                == call["returns"]
            )
    if "invocations" in case:
        assert mock.invocations == case["invocations"]
    for name, prompts in case.get("get_invocations", {}).items():
        found = mock.get_invocations() if name == "none" else mock.get_invocations(name)
        assert [call["prompt"] for call in found] == prompts


# The driver -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("drive"))
def test_drive(case: dict[str, Any]) -> None:
    exits: list[int] = case["exits"]
    runs: list[bool] = []
    dispatched: list[int] = []

    def run(resume: bool) -> int:
        runs.append(resume)
        return exits[min(len(runs), len(exits)) - 1]

    limit = (
        {"max_iterations": case["max_iterations"]} if "max_iterations" in case else {}
    )
    code = drive_loop(run, lambda: dispatched.append(len(runs)), **limit)

    assert (len(runs), len(dispatched), code) == tuple(
        case["expect"][key] for key in ("runs", "dispatched", "exit_code")
    )
    assert runs == [number > 0 for number in range(len(runs))]


# Answers of template-create -------------------------------------------------------------------------------------------


def outcome(verdict: Verdict) -> str:
    if isinstance(verdict, Failed):
        return verdict.reason
    return "accept" if verdict.warning is None else "accept_with_warning"


@pytest.mark.parametrize("case", cases("payloads"))
def test_payloads(case: dict[str, Any]) -> None:
    verdict = judge_of(case["phase"])(case["response"])
    assert outcome(verdict) == case["outcome"]
    for name, kept in case.get("kept", {}).items():
        assert isinstance(verdict, Accepted)
        assert [
            str(getattr(item, "name", item)) for item in getattr(verdict.value, name)
        ] == kept


# Resume ---------------------------------------------------------------------------------------------------------------

PROMPT = "Analyse the following codebase samples and answer with one JSON object that matches the schema at the end. "
PHASES = {
    1: (
        "codebase_analysis",
        "codebase_analysis",
        "codebase_analysis",
        "architectural-reviewer",
        120,
    ),
    2: ("manifest_generation", "manifest", None, None, 0),
    3: ("settings_generation", "settings", None, None, 0),
    4: ("template_generation", "templates", None, None, 0),
    5: (
        "agent_recommendation",
        "agents",
        "agent_creation",
        "architectural-reviewer",
        180,
    ),
    6: ("agent_writing", None, None, None, 0),
    7: ("agent_enhancement", None, "agent_enhancement", "agent-content-enhancer", 300),
    8: ("documentation_generation", None, None, None, 0),
    9: ("package_assembly", None, None, None, 0),
}


def phased_flow(agent_phases: list[int]) -> Flow:
    """Nine phases that do nothing but ask where an agent is due."""

    def judged(phase: int, text: str) -> Verdict:
        verdict = judge_of(phase)(text)
        return (
            Accepted({}, verdict.warning) if isinstance(verdict, Accepted) else verdict
        )

    def body(ctx: PhasedContext, number: int) -> Any:
        _, _, asked, agent, timeout = PHASES[number]
        if number not in agent_phases or asked is None or agent is None:
            return {}
        return ctx.ask(
            asked,
            agent=agent,
            prompt=PROMPT,
            timeout=timeout,
            judge=lambda text: judged(number, text),
            fallback=lambda _: {},
        )

    def create(ctx: PhasedContext, **_: Any) -> None:
        for number, (name, key, *_rest) in PHASES.items():
            ctx.phase(
                number, name, lambda inner, number=number: body(inner, number), key=key
            )

    return Flow("template-create", "1", create, keeps_state_file=True)


@dataclass
class CaseOnDisk:
    """A case laid out on a real disk."""

    root: Path
    given: dict[str, Any]
    before: dict[str, bytes]

    @classmethod
    def laid_out(cls, case: dict[str, Any], root: Path) -> CaseOnDisk:
        given = json.loads(json.dumps(case["given"]).replace("/srv/app", str(root)))
        state = given["files"].get(STATE_FILE)
        if (
            given.get("flow_version") == "incompatible"
            and isinstance(state, dict)
            and "version" in state
        ):
            state.setdefault("phase_data", {})["_flow"] = {"version": "another"}
        for name, content in given["files"].items():
            put(root / name, content)
        if given.get("response_owner") == "other" and os.geteuid() == 0:
            os.chown(root / RESPONSE_FILE, FOREIGN_UID, -1)
        return cls(root, given, contents(root))

    @property
    def pending_id(self) -> str | None:
        items = self.state_items(self.given["files"][STATE_FILE])
        return next(
            (item["request_id"] for item in items if item.get("status") == "pending"),
            None,
        )

    @property
    def known_ids(self) -> set[str]:
        return {
            str(item.get("request_id"))
            for item in self.state_items(self.given["files"][STATE_FILE])
        }

    @staticmethod
    def state_items(state: Any) -> list[dict[str, Any]]:
        return state.get("agent_requests", []) if isinstance(state, dict) else []

    def post_mortems(self) -> list[Path]:
        return sorted((self.root / ".bridgehead/flows/post-mortem").glob("*"))

    def items_after(self) -> dict[str, dict[str, Any]]:
        """The history after the run, wherever the state file is now."""
        places = [
            self.root / STATE_FILE,
            *(folder / STATE_FILE for folder in self.post_mortems()),
        ]
        found = next((place for place in places if place.is_file()), None)
        items = self.state_items(json.loads(found.read_bytes())) if found else []
        return {str(item["request_id"]): item for item in items}

    def inputs(self) -> RunInputs:
        owners = None
        if self.given.get("response_owner") == "other" and os.geteuid() != 0:
            owners = frozenset({os.geteuid() + 1})
        clock = ManualClock(
            datetime.fromisoformat(self.given["now"].replace("Z", "+00:00"))
        )
        return RunInputs(clock=clock, response_owners=owners)

    def request(self) -> RunRequest:
        flags = Flags(self.given["flags"])
        paths = {
            "template_name": flags.value("--name"),
            "output_path": flags.value("--output"),
        }
        return RunRequest(
            root=self.root,
            given={
                "project_path": str(self.root),
                **{key: value for key, value in paths.items() if value is not None},
            },
            defaults={
                "output_path": str(self.root / "out"),
                "template_name": "demo-api",
            },
            options=RunOptions(
                max_retries=self.given["max_retries"],
                heuristics_only="--heuristics-only" in flags.words or None,
                missing_agent_falls_back=flags.value("--on-missing-agent") == "fallback"
                or None,
            ),
            resume="--resume" in flags.words,
            fresh="--fresh" in flags.words,
            force_version="--force-version" in flags.words,
            accept_foreign_owner="--accept-foreign-owner" in flags.words,
            tolerant="--tolerant" in flags.words,
        )


class Flags:
    def __init__(self, flags: list[str]) -> None:
        self.words = [word for flag in flags for word in flag.split("=", 1)]

    def value(self, name: str) -> str | None:
        return self.words[self.words.index(name) + 1] if name in self.words else None


def put(path: Path, content: Any) -> None:
    if content is None:
        return
    if "$symlink" in content:
        path.symlink_to(content["$symlink"])
        return
    data = (
        content["$raw"].encode() if "$raw" in content else json.dumps(content).encode()
    )
    path.write_bytes(data)
    path.chmod(0o600)
    os.utime(path, (0, 0))


def contents(root: Path) -> dict[str, bytes]:
    """The three files as they are: bytes, or where a link points to."""
    return {
        name: bytes((root / name).readlink())
        if (root / name).is_symlink()
        else (root / name).read_bytes()
        for name in CHECKPOINT_FILES
        if os.path.lexists(root / name)
    }


@contextmanager
def circumstances(laid_out_case: CaseOnDisk) -> Iterator[None]:
    """The lock held by somebody else, a completed run in the journal."""
    root = FlowRoot.open(laid_out_case.root)
    if laid_out_case.given.get("journal") == "completed":
        root.prepare()
        with SqliteJournal(root.journal) as journal:
            stamp = laid_out_case.given["now"]
            run = (
                "template-create",
                "1",
                "",
                str(laid_out_case.root),
                RunStatus.RUNNING,
                {},
                stamp,
                stamp,
            )
            journal.begin(Run("flow-20251118-100000-0000", *run))
            journal.end("flow-20251118-100000-0000", RunStatus.COMPLETED, at=stamp)
    if laid_out_case.given.get("lock") != "held":
        yield
        return
    root.prepare()
    with (root.private / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class Observed:
    actions: list[str]
    exit_code: int
    reasons: list[str]


def observe(laid_out_case: CaseOnDisk) -> Observed:
    try:
        result: RunResult = run_flow(
            phased_flow(laid_out_case.given["agent_phases"]),
            laid_out_case.request(),
            laid_out_case.inputs(),
        )
    except FlowRefused as refused:
        return Observed([refused.action], refused.exit_code, [])
    except FlowFailed as failed:
        return Observed(
            list(failed.actions), failed.exit_code, [failed.error_type or ""]
        )
    except BridgeheadError as error:
        return Observed([type(error).__name__], error.exit_code, [])
    fallbacks = [
        remark.text.split(":")[0]
        for remark in result.remarks
        if remark.kind == "fallback"
    ]
    return Observed(list(result.actions), result.exit_code, fallbacks)


@pytest.mark.parametrize("case", cases("resume"))
def test_resume(case: dict[str, Any], tmp_path: Path) -> None:
    root = tmp_path / "app"
    root.mkdir(mode=0o755)
    laid_out_case = CaseOnDisk.laid_out(case, root.resolve())
    with circumstances(laid_out_case):
        observed = observe(laid_out_case)
    expected = json.loads(
        json.dumps(case["expect"]).replace("/srv/app", str(laid_out_case.root))
    )

    assert observed.actions == expected["actions"]
    assert observed.exit_code == expected["exit_code"]
    check_files(laid_out_case, expected)
    check_request(laid_out_case, expected)
    check_history(laid_out_case, expected, observed)


def check_files(laid_out_case: CaseOnDisk, expected: dict[str, Any]) -> None:
    after = contents(laid_out_case.root)
    wanted = expected.get("files_after")
    if wanted == "unchanged":
        assert after == laid_out_case.before
    elif wanted is not None:
        assert set(after) == set(wanted)
    if expected.get("response_file") == "absent":
        assert RESPONSE_FILE not in after
    if expected.get("request_unchanged"):
        assert (
            after[".agent-request.json"] == laid_out_case.before[".agent-request.json"]
        )
    if "post_mortem" in expected:
        moved = {
            path.name: path.read_bytes()
            for folder in laid_out_case.post_mortems()
            for path in folder.iterdir()
        }
        assert bool(moved) is expected["post_mortem"]
        if "fresh_start" in expected["actions"]:
            assert moved == laid_out_case.before
    for name, kind in (
        (STATE_FILE, DocumentKind.STATE),
        (".agent-request.json", DocumentKind.REQUEST),
    ):
        if expected["exit_code"] == ExitCode.WAITING and name in after:
            assert validate(read_object(after[name]), kind) == [] or after[
                name
            ] == laid_out_case.before.get(name)


def check_request(laid_out_case: CaseOnDisk, expected: dict[str, Any]) -> None:
    wanted = expected.get("next_request")
    if wanted is None:
        return
    request = json.loads((laid_out_case.root / ".agent-request.json").read_bytes())
    for key, value in wanted.items():
        if key == "new_request_id":
            assert (request["request_id"] not in laid_out_case.known_ids) is value
        elif key == "same_request_id":
            assert (request["request_id"] == laid_out_case.pending_id) is value
        else:
            assert request[key] == value


def check_history(
    laid_out_case: CaseOnDisk, expected: dict[str, Any], observed: Observed
) -> None:
    if not expected.keys() & {"resumes_after", "history_status", "history", "reason"}:
        return
    items = laid_out_case.items_after()
    pending = items.get(laid_out_case.pending_id or "", {})
    if "resumes_after" in expected:
        assert pending["resumes"] == expected["resumes_after"]
    if "history_status" in expected:
        assert pending["status"] == expected["history_status"]
    for request_id, status in expected.get("history", {}).items():
        assert items[request_id]["status"] == status
    if "reason" in expected:
        recorded = (
            [pending["error_type"]] if "error_type" in pending else observed.reasons
        )
        assert recorded == [expected["reason"]]
    if "history" in expected and expected["actions"][-1].startswith("accept"):
        assert not any(
            "error_type" in items[request_id] for request_id in expected["history"]
        )
