"""A run that has been opened, with everything its passes, its pause and its end need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridgehead.flows.announcer import FlowEvent
from bridgehead.flows.checkpoint_files import CheckpointFiles
from bridgehead.flows.definition import Flow
from bridgehead.flows.journals.base import Journal, Run
from bridgehead.flows.moments import utc_text
from bridgehead.flows.opening import Opening
from bridgehead.flows.requests import OPTIONS_KEY, RunRequest
from bridgehead.flows.settlement import Rules
from bridgehead.flows.surroundings import Surroundings
from bridgehead.flows.words import DEFAULT_MAX_RETRIES, Profile


class Stage:
    def __init__(
        self,
        flow: Flow,
        request: RunRequest,
        surroundings: Surroundings,
        files: CheckpointFiles,
        journal: Journal,
        run: Run,
        opening: Opening,
    ) -> None:
        self.flow = flow
        self.request = request
        self.surroundings = surroundings
        self.files = files
        self.journal = journal
        self.run = run
        self.opening = opening

    @property
    def options(self) -> Mapping[str, Any]:
        """Settings that stay with the run: as they were stored with it, else as given now."""
        return {**self.request.options.given(), **self.run.input.get(OPTIONS_KEY, {})}

    @property
    def rules(self) -> Rules:
        return Rules(
            contract=self.flow.contract,
            profile=Profile.TOLERANT if self.request.tolerant else Profile.INTEROP,
            max_retries=self.options.get("max_retries", DEFAULT_MAX_RETRIES),
            missing_agent_falls_back=bool(self.options.get("missing_agent_falls_back")),
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What the flow function is called with: as stored, but operational ones as given now (flows §9)."""
        stored = {key: value for key, value in self.run.input.items() if key != OPTIONS_KEY}
        anew = {key: value for key, value in self.request.given.items() if key in self.flow.operational}
        return {**stored, **anew}

    def now(self) -> str:
        return utc_text(self.surroundings.clock.now())

    def announce(self, kind: str, *, key: str = "", **facts: Any) -> None:
        """Tell the announcer; `key` sets apart events of one kind in one run."""
        event_id = f"{self.run.id}/{kind}" + (f"/{key}" if key else "")
        event = FlowEvent(event_id, kind, self.run, self.now(), facts)
        self.surroundings.announcer.happened(event)
