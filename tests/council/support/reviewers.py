"""A model that reviews the example project: each vendor's wire in its own words, roles told apart by the question.

What it finds is in the example on purpose, except for what it makes up; what it makes up is withdrawn when challenged.
"""

from __future__ import annotations

import json
import re
from typing import Any

from bridgehead.testing.exchange import ModelRequest, Say
from bridgehead.testing.scripts import Scripted


def finding(
    severity: str, title: str, description: str, evidence: str, action: str
) -> dict[str, Any]:
    return {
        "type": "finding",
        "severity": severity,
        "title": title,
        "description": description,
        "evidence": evidence,
        "action": action,
    }


INJECTION = 'orders/store.py:10 `"SELECT id, customer, total FROM orders WHERE id = \'" + order_id + "\'"`'
PICKLE = "orders/store.py:15 `return pickle.loads(blob)`"
BIND = 'bind the value: connection.execute("... WHERE id = ?", (order_id,))'
INJECTED = "The order id is concatenated into the SQL text, so a crafted order id changes the SQL statement."
UNPICKLED = (
    "Untrusted bytes are unpickled, and unpickling runs code that the bytes choose."
)

FINDS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        finding(
            "CRITICAL",
            "Order id is concatenated into the SQL text",
            INJECTED,
            INJECTION,
            BIND,
        ),
        finding(
            "HIGH",
            "Untrusted bytes are unpickled",
            UNPICKLED,
            PICKLE,
            "store the order as JSON",
        ),
    ],
    "responses": [
        finding(
            "HIGH",
            "SQL text is concatenated with the order id",
            INJECTED,
            INJECTION,
            BIND,
        ),
        finding(
            "MEDIUM",
            "Mutable default argument keeps lines between orders",
            "The default list of add_line is shared by all calls, so lines of one order turn up in the next.",
            "orders/store.py:22 `def add_line(order_id: str, lines=[]):`",
            "use None and make the list inside",
        ),
    ],
    "gemini": [
        finding(
            "HIGH",
            "Untrusted bytes are unpickled when an order is loaded",
            UNPICKLED,
            PICKLE,
            "use JSON",
        ),
        finding(
            "HIGH",
            "The connection is never closed",
            "Every call opens a connection and leaves it open.",
            "orders/store.py:40 `connection = connect()`",
            "close it",
        ),
    ],
    "chat": [
        finding(
            "CRITICAL",
            "The order id is concatenated into SQL text",
            INJECTED,
            INJECTION,
            BIND,
        ),
        finding(
            "LOW",
            "MD5 names an order",
            "MD5 is used to make a reference of the order id.",
            "orders/store.py:19 `return hashlib.md5(order_id.encode()).hexdigest()`",
            "use SHA-256",
        ),
    ],
}


def review(request: ModelRequest) -> Scripted | None:
    """Answer as the role that the prompt gives."""
    return Scripted(
        Say(json.dumps(_answer(request.wire, "\n".join(request.user_texts))))
    )


def _answer(wire: str, prompt: str) -> dict[str, Any]:
    ids = list(
        dict.fromkeys(re.findall(r'"id": ?"((?:[A-Z]|MMC|SS|D|INT)\d{3,})"', prompt))
    )
    if '"sections"' in prompt:
        names = re.findall(r'^Section "([^"]+)"', prompt, re.MULTILINE)
        return {
            "sections": [
                {"domain": name, "outputs": FINDS[wire] if name == "security" else []}
                for name in names
            ]
        }
    if '"challenge_notes"' in prompt and '"responses"' in prompt:
        mine = re.findall(r'"target_finding_id": ?"((?:MMC|SS|D|INT)\d+)"', prompt)
        return {
            "responses": [_response(wire, one) for one in mine],
            "challenge_notes": [],
        }
    if '"challenge_notes"' in prompt:
        return {"challenge_notes": [_note(one) for one in ids]}
    if '"positions"' in prompt:
        return {
            "positions": [{"finding_id": one, "position": "support"} for one in ids],
            "merges": [],
        }
    if '"messages"' in prompt:
        return {"messages": [], "outputs": []}
    if '"responses"' in prompt:
        return {"responses": [_response(wire, one) for one in ids], "outputs": []}
    if '"rulings"' in prompt:
        challenges = re.findall(r'"challenge_id": ?"(CH\d+)"', prompt)
        ruled = [
            {"challenge_id": one, "ruling": "withdraw", "reason": "answered"}
            for one in challenges
        ]
        return {
            "rulings": ruled,
            "challenges": [_challenge(one) for one in ids],
            "outputs": [],
        }
    is_expert = (
        "You are a " in prompt
        and '"outputs"' in prompt
        and '"previous_findings"' not in prompt
    )
    return {
        "outputs": FINDS[wire] if is_expert else [],
        "summary": "looked",
        "confidence": "high",
    }


def _challenge(finding_id: str) -> dict[str, Any]:
    return {
        "target_finding_id": finding_id,
        "challenge_text": "A caller may have checked the value before.",
        "mechanism": "missing-assumption",
    }


def _response(wire: str, finding_id: str) -> dict[str, Any]:
    if wire == "gemini" and finding_id.endswith("2"):
        reason = "orders/store.py:10 `cursor = connection.execute(` is the only use; I misread it."
        return {"finding_id": finding_id, "status": "withdrawn", "defense": reason}
    defense = "No caller checks anything: orders/store.py:9 `def find_order(`"
    return {"finding_id": finding_id, "status": "confirmed", "defense": defense}


def _note(finding_id: str) -> dict[str, Any]:
    return {
        "finding_id": finding_id,
        "challenge": "Only holds if the value comes from outside.",
        "mechanism": "missing-assumption",
        "response": "It does: orders/store.py:9",
        "outcome": "confirmed",
    }
