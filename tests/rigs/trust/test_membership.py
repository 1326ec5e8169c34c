"""Who takes part from when to when, and whether a key speaks for a name, by the vectors beside this file."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.trust.attestation import (
    Signature,
    Witness,
    relay_findings,
    signature_findings,
)
from bridgehead.rigs.trust.membership import (
    Act,
    ActKind,
    ActUnreadable,
    Entry,
    Keyring,
    Membership,
    Order,
    Pin,
    Place,
    acts_block,
    fingerprint_of,
    read_acts,
)

HERE = Path(__file__).parent


def cases(name: str) -> list[Any]:
    return [
        pytest.param(case, id=case["id"])
        for case in json.loads((HERE / name).read_text())["cases"]
    ]


def key(name: str) -> str:
    return f"ssh-ed25519 {b64encode(name.encode() * 12).decode()}"


def mark(name: str) -> str:
    return fingerprint_of(key(name)) or ""


def place(position: int) -> Place:
    return Place(f"{position:040x}", position, 1000 * position)


def entry(said: dict[str, Any]) -> Entry:
    acts = [
        {
            **act,
            "key": mark(act["key"]) if act["act"] == "retire_key" else key(act["key"]),
        }
        if "key" in act
        else act
        for act in said["acts"]
    ]
    read = read_acts(f"```json bridgehead-membership\n{json.dumps(acts)}\n```\n")
    signer = mark(said["key"]) if said["key"] else None
    sealed = tuple(read) if isinstance(read, list) else read
    return Entry(
        place(said["at"]),
        str(said["at"]),
        f"blob-{said['at']}",
        said["from"],
        signer,
        sealed,
    )


def fold(case: dict[str, Any]) -> Membership:
    pins = {**case.get("pins", {}), **case.get("founder_pinned", {})}
    parents = {
        place(int(child)).commit: [place(parent).commit for parent in above]
        for child, above in case.get("parents", {}).items()
    }
    return Membership(
        [entry(said) for said in reversed(case["entries"])],
        Order(parents or None),
        founding=f"blob-{case['founding']}" if "founding" in case else None,
        may_found=lambda rig, name: not pins or mark(pins.get(rig, "")) == name,
        is_pinned=lambda rig: rig in pins,
        pinned_key=lambda rig, name: rig in pins and mark(pins[rig]) == name,
    )


@pytest.mark.parametrize("case", cases("membership.json"))
def test_membership_is_the_fold_of_its_entries(case: dict[str, Any]) -> None:
    found, expect = fold(case), case["expect"]

    assert {member.rig: str(member.role) for member in found.members} == expect[
        "members"
    ]
    assert sorted(found.requests) == expect.get("asking", [])
    assert sorted(map(int, found.refused)) == expect.get("refused", [])
    for name, rig, at, holds in expect.get("keys", ()):
        assert (rig in found.holders(mark(name), place(at))) is holds, (name, rig, at)
    for name, rig, at, retired in expect.get("retired", ()):
        assert found.is_retired(mark(name), rig, place(at)) is retired, (name, rig, at)


@pytest.mark.parametrize("case", cases("identity.json"))
def test_only_their_own_key_speaks_for_a_name(case: dict[str, Any]) -> None:
    members = case.get("members", {})
    acts = tuple(Act(ActKind.JOIN, rig, key(name)) for rig, name in members.items())
    entries = (
        [Entry(place(1), "x", "x", acts[0].rig, fingerprint_of(acts[0].key), acts)]
        if acts
        else []
    )
    pins = [
        Pin(mark(name), tuple(p for p, n, *_ in case["pins"] if n == name), *since)
        for _, name, *since in case.get("pins", ())
    ]
    signer, author = case["signed_by"], case.get("author", "somebody@example.com")
    pinned = next(
        (
            pin.principals[0]
            for pin in pins
            if signer and pin.fingerprint == mark(signer)
        ),
        None,
    )
    ring = Keyring(pins, Membership(entries))
    keys = (mark(signer),) if signer else ()
    standing = ring.standing(
        case["from"], place(case.get("at", 5)), keys, pinned, author
    )
    known = Signature.KNOWN if standing.is_known else Signature.STRANGER
    witness = Witness(known if signer else Signature.NONE, keys, standing)

    relay = case["from"].endswith("-relay")
    must_sign = case.get("must_sign", "members")
    if relay:
        fields: dict[str, Value] = {
            "from": case["from"],
            "in_reply_to": "0",
            "attested_by": "a/path",
        }
        found = list(
            relay_findings(fields, witness, signers_known=True, must_sign=must_sign)
        )
        found = [
            kind
            for kind in found
            if kind not in ("relay_fields_missing", "attested_time_skew")
        ]
    else:
        found = list(
            signature_findings(
                witness, relay=False, signers_known=True, must_sign=must_sign
            )
        )

    assert [str(kind) for kind in found] == case["kinds"]
    assert witness.is_signed_by_sender is case["verified"]


def act(kind: ActKind, rig: str, since: str) -> Act:
    return Act(kind, rig, "" if kind is ActKind.LEAVE else key(rig), since=since)


ACTS = st.builds(
    act,
    st.sampled_from([ActKind.JOIN, ActKind.ADD_KEY, ActKind.LEAVE]),
    st.sampled_from(["mac", "win"]),
    st.sampled_from(["", "2026-11-15T10:00:00.000Z"]),
)


@settings(deadline=None)
@given(st.lists(ACTS, min_size=1, max_size=5))
def test_property_acts_come_back_as_they_were_written(acts: list[Act]) -> None:
    assert read_acts(f"# words\n\n{acts_block(acts)}") == acts


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["mac", "win", "eve"]), ACTS), max_size=8
    ).flatmap(lambda said: st.tuples(st.just(said), st.permutations(range(len(said)))))
)
def test_property_the_order_in_which_entries_are_read_changes_nothing(
    case: Any,
) -> None:
    said, order = case
    entries = [
        Entry(place(at), str(at), str(at), who, mark(who), (said_act,))
        for at, (who, said_act) in enumerate(said)
    ]
    one, other = Membership(entries), Membership([entries[at] for at in order])
    assert (one.members, one.refused, one.requests) == (
        other.members,
        other.refused,
        other.requests,
    )


@pytest.mark.parametrize(
    "body",
    [
        "",
        "```json bridgehead-membership\nnot json\n```\n",
        "```json bridgehead-membership\n[]\n```\n",
        '```json bridgehead-membership\n[{"act":"join","rig":"A"}]\n```\n',
        '```json bridgehead-membership\n[{"act":"join","rig":"a","key":"ssh-ed25519 AAAA\\nx"}]\n```\n',
        '```json bridgehead-membership\n[{"act":"leave","rig":"a"}]\n```\n' * 2,
    ],
)
def test_what_is_no_list_of_acts_changes_nothing(body: str) -> None:
    assert isinstance(read_acts(body), ActUnreadable)


@pytest.mark.parametrize("value", [[], {}, [["join"]]])
@pytest.mark.parametrize("field", ["act", "rig", "key", "role", "human", "since"])
def test_a_field_that_is_a_collection_makes_an_act_unreadable(
    field: str, value: object
) -> None:
    act = {"act": "join", "rig": "mac", "key": key("mac"), field: value}

    body = f"```json bridgehead-membership\n{json.dumps([act])}\n```\n"

    assert isinstance(read_acts(body), ActUnreadable)


def test_a_founder_may_dismiss_somebody_who_never_was_in() -> None:
    acts = (Act(ActKind.JOIN, "mac", key("mac")), Act(ActKind.LEAVE, "win"))

    found = Membership([Entry(place(1), "1", "blob-1", "mac", mark("mac"), acts)])

    assert [member.rig for member in found.members] == ["mac"]


FOUNDED = {
    "from": "mike-relay",
    "key": "mike",
    "at": 1,
    "acts": [
        {"act": "join", "rig": "mike-relay", "key": "mike"},
        {"act": "join", "rig": "anna-relay", "key": "anna"},
    ],
}


def test_a_member_who_left_changes_nothing_even_with_a_pinned_key() -> None:
    entries = [
        FOUNDED,
        {
            "from": "mike-relay",
            "key": "mike",
            "at": 2,
            "acts": [{"act": "leave", "rig": "anna-relay"}],
        },
        {
            "from": "anna-relay",
            "key": "anna",
            "at": 3,
            "acts": [{"act": "join", "rig": "eve", "key": "eve"}],
        },
    ]
    pins = {"mike-relay": "mike", "anna-relay": "anna"}

    found = fold({"entries": entries, "pins": pins})

    assert [member.rig for member in found.members] == ["mike-relay"]
    assert list(found.refused) == ["3"]


def test_a_stranger_asks_neither_for_a_name_that_has_a_key_nor_for_anything_else() -> (
    None
):
    def asking(at: int, rig: str, *more: dict[str, str]) -> dict[str, Any]:
        join = {"act": "join", "rig": rig, "key": "eve"}
        return {"from": rig, "key": "eve", "at": at, "acts": [join, *more]}

    entries = [
        FOUNDED,
        asking(2, "anna-relay"),
        asking(3, "eve", {"act": "join", "rig": "mallory", "key": "mallory"}),
        asking(4, "eve", {"act": "leave", "rig": "anna-relay"}),
    ]

    found = fold({"entries": entries})

    assert found.requests == {}
    assert list(found.refused) == ["2", "3", "4"]
    assert [member.rig for member in found.members] == ["anna-relay", "mike-relay"]


@pytest.mark.parametrize(
    ("minutes", "readable"),
    [(0, True), (43_200, True), (43_201, False), (-1, False), (True, False)],
)
def test_nobody_is_allowed_to_freeze_for_more_than_thirty_days(
    minutes: object, readable: bool
) -> None:
    act = {
        "act": "join",
        "rig": "mac",
        "key": key("mac"),
        "freeze_minutes": minutes,
    }

    read = read_acts(f"```json bridgehead-membership\n{json.dumps([act])}\n```\n")

    assert isinstance(read, list) is readable
