"""The benchmark's flow on DBOS with SQLite; run by the interpreter of .venv/flow-engines.

`check` does nothing, `start FOLDER` leaves with exit 42 once the flow waits, `resume FOLDER ANSWER` prints the result,
`record FOLDER COUNT` prints steps per second.
"""

# mypy: ignore-errors
# The engine is not installed where types are checked.

import os
import sys
import time
from pathlib import Path

from dbos import DBOS, SetWorkflowID

WORKFLOW = "one"
PATIENCE_SECONDS = 3600.0


@DBOS.step()
def prepare() -> int:
    return 41


@DBOS.step()
def count_up(number: int) -> int:
    return number + 1


@DBOS.workflow()
def conversation() -> str:
    number = prepare()
    DBOS.set_event("asked", "How many?")
    return str(DBOS.recv("answer", timeout_seconds=PATIENCE_SECONDS)) + str(number)


@DBOS.workflow()
def counting(count: int) -> int:
    number = 0
    for _ in range(count):
        number = count_up(number)
    return number


def launch(folder: str) -> None:
    address = f"sqlite:///{Path(folder).resolve()}/dbos.db"
    DBOS(config={
        "name": "bench", "system_database_url": address, "run_admin_server": False, "log_level": "ERROR",
        "application_version": "1",
    })  # fmt: skip
    DBOS.launch()


def main(verb: str, folder: str = "", *rest: str) -> int:
    if verb == "check":
        return 0  # it could be imported
    launch(folder)
    if verb == "start":
        with SetWorkflowID(WORKFLOW):
            DBOS.start_workflow(conversation)
        DBOS.get_event(WORKFLOW, "asked", timeout_seconds=60)
        os._exit(42)  # as a machine that is switched off: the workflow stays pending
    if verb == "resume":
        DBOS.send(WORKFLOW, rest[0], "answer")
        print(DBOS.retrieve_workflow(WORKFLOW).get_result(), flush=True)
        os._exit(0)
    count = int(rest[0])
    began = time.perf_counter()
    counting(count)
    print(count / (time.perf_counter() - began), flush=True)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
