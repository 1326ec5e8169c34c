"""The clones that hold a rig: the present project and those the record has events of.

No other place is ever opened.
"""

from pathlib import Path
from typing import NamedTuple

from bridgehead.contract.record_words import Part
from bridgehead.control_plane.records import EventFilter
from bridgehead.control_plane.stores.base import Store
from bridgehead.errors import NotFound
from bridgehead.rigs.envelope.names import CONFIG_PATH

RECENT_EVENTS = 1000


class RigClone(NamedTuple):
    """A clone, and the short name by which addresses speak of it: no path of this
    machine stands in one.
    """

    root: str

    @property
    def id(self) -> str:
        return clone_id(self.root)

    @property
    def name(self) -> str:
        return Path(self.root).name


def clone_id(root: str) -> str:
    from hashlib import sha256  # late: who asks for what waits needs no address

    return sha256(root.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def known_clones(here: Path, store: Store) -> list[RigClone]:
    """Return the present project first, then those in which something happened last."""
    recent = store.events(
        EventFilter(parts=(Part.RIGS,)), limit=RECENT_EVENTS, newest_first=True
    )
    places = dict.fromkeys(
        [here, *(Path(found.event.project) for found in recent if found.event.project)]
    )
    return [RigClone(str(place)) for place in places if (place / CONFIG_PATH).is_file()]


def find_clone(here: Path, store: Store, wanted: str) -> RigClone:
    for clone in known_clones(here, store):
        if clone.id == wanted:
            return clone
    raise NotFound(
        f"no repository {wanted!r} that contains a rig is known here",
        hint="a repository becomes known after a rig command has run in it",
    )
