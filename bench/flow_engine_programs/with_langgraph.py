"""The benchmark's flow on LangGraph with its SQLite checkpointer; run by the interpreter of .venv/flow-engines.

`check` does nothing, `start FOLDER` pauses (exit 42), `resume FOLDER ANSWER` prints the result, `record FOLDER COUNT`
prints steps per second.
"""

# mypy: ignore-errors
# The engine is not installed where types are checked.

import sqlite3
import sys
import time
from pathlib import Path
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

THREAD = {"configurable": {"thread_id": "one"}}


class State(TypedDict, total=False):
    number: int
    answer: str
    steps: int


def prepare(state: State) -> State:
    return {"number": 41}


def ask(state: State) -> State:
    return {"answer": interrupt("How many?")}


def conversation(saver: SqliteSaver):
    graph = StateGraph(State)
    graph.add_node("prepare", prepare)
    graph.add_node("ask", ask)
    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=saver)


def counting(saver: SqliteSaver, count: int):
    graph = StateGraph(State)
    graph.add_node("step", lambda state: {"steps": state.get("steps", 0) + 1})
    graph.add_edge(START, "step")
    graph.add_conditional_edges(
        "step", lambda state: END if state["steps"] >= count else "step"
    )
    return graph.compile(checkpointer=saver)


def saver_in(folder: str) -> SqliteSaver:
    connection = sqlite3.connect(Path(folder) / "langgraph.db", check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute("PRAGMA synchronous=FULL")
    return saver


def main(verb: str, folder: str = "", *rest: str) -> int:
    if verb == "check":
        return 0  # it could be imported
    saver = saver_in(folder)
    if verb == "start":
        conversation(saver).invoke({}, THREAD, durability="sync")
        return 42
    if verb == "resume":
        done = conversation(saver).invoke(
            Command(resume=rest[0]), THREAD, durability="sync"
        )
        print(done["answer"] + str(done["number"]))
        return 0
    count = int(rest[0])
    graph = counting(saver, count)
    began = time.perf_counter()
    graph.invoke({}, {**THREAD, "recursion_limit": count + 10}, durability="sync")
    print(count / (time.perf_counter() - began))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
