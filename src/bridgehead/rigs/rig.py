"""One rig: its clone, its configuration, its clock, and who learns what it does.

Operations get everything from here. The announcer and the ledger are interfaces;
assembly decides what listens.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from bridgehead.errors import ConfigError
from bridgehead.host.file_errors import FileMissing
from bridgehead.rigs.envelope.names import CONFIG_PATH
from bridgehead.rigs.envelope.text import iso_timestamp

if TYPE_CHECKING:
    from bridgehead.rigs.config import RigConfig
    from bridgehead.rigs.repositories.git.repository import GitRepository
    from bridgehead.rigs.repositories.records import Rebuilt
    from bridgehead.rigs.trust.council_mark import CouncilMark


class Author(NamedTuple):
    """The rig that writes, as its configuration names it."""

    rig_id: str
    display_name: str | None = None


Announcer = Callable[[str, Mapping[str, object]], None]
"""Learns what was done, afterwards. It never raises: nothing needs it (rigs §14.6)."""


class Ledger(Protocol):
    """The control plane of rigs §14; a failure to write is only a warning."""

    def catch_up(self) -> None:
        """Take in what git has and the tables lack; pushes nothing."""
        return

    def sent(self, path: str, commit: str, *, pushed: bool) -> int | None:
        """Record an envelope of ours; the row's id, None if it could not be written."""
        return None

    def rewritten(self, turns: "Sequence[Rebuilt]") -> None:
        """Record that a push retry gave our turns other commits, or other names."""
        return

    def refused(self, reason: str) -> None:
        """Count a pull that was refused."""
        return

    def is_current(self) -> bool:
        """Return whether the tables have seen HEAD."""
        return True


class Reviews(Protocol):
    """The councils this machine knows of (design §1).

    Its owner may demand that results come from one.
    """

    def are_required(self) -> bool:
        return False

    def known_mark(self, council_id: str) -> "CouncilMark | None":
        """Return what this machine's record says about a council, if anything."""
        return None


class Silent(Ledger, Reviews):
    """The ledger of a bridge without one, and reviews that demand nothing."""


class Rig:
    """A participant in one clone.

    The clone is looked for when it is first needed: arguments are judged before
    (rigs §8). `tell` is conversation: narrative, hints, warnings.
    """

    def __init__(
        self,
        find_repository: "Callable[[], GitRepository]",
        *,
        now_ms: Callable[[], int],
        random_bits: Callable[[int], int],
        sleep: Callable[[float], None],
        tell: Callable[[str], None],
        announcer: Announcer = lambda kind, facts: None,
        ledger: "Callable[[Rig], Ledger] | None" = None,
        reviews: Callable[[str], Reviews] = lambda root: Silent(),
    ) -> None:
        self._find_repository = find_repository
        self.now_ms = now_ms
        self.random_bits = random_bits
        self.sleep = sleep
        self.tell = tell
        self._told: set[str] = set()
        self._announcer = announcer
        self._make_ledger = ledger
        self._make_reviews = reviews
        # Does something once the user has the answer. By default that is at once; a
        # surface that knows better replaces it.
        self.once_answered: Callable[[Callable[[], None]], None] = lambda done: done()

    @cached_property
    def repository(self) -> "GitRepository":
        return self._find_repository()

    @cached_property
    def config(self) -> "RigConfig":
        """Who this rig is; a clone without an identity raises ConfigMissing.

        A tracked file came from others, so it can name no other file and loosen
        no trust.
        """
        from bridgehead.rigs.config import MAX_CONFIG_BYTES, ConfigMissing, parse_config

        try:
            config = parse_config(
                self.repository.read_file(CONFIG_PATH, MAX_CONFIG_BYTES)
            )
        except FileMissing:
            raise ConfigMissing from None
        chosen = config.trust_chosen
        if not chosen or not self.repository.is_tracked(CONFIG_PATH):
            return config
        self.tell_once(
            f"warning: {CONFIG_PATH} is tracked by git, so {', '.join(chosen)} in it "
            "is ignored; "
            f"run: git rm --cached {CONFIG_PATH}"
        )
        return config.without_trust()

    @cached_property
    def settings(self) -> "RigConfig | None":
        """The configuration, if there is a usable one (rigs §2)."""
        try:
            return self.config
        except ConfigError as error:
            if self.repository.has_file(CONFIG_PATH):
                self.tell_once(
                    f"warning: {error.message}; its settings are ignored until that "
                    "is fixed"
                )
            return None

    @cached_property
    def ledger(self) -> Ledger:
        return self._make_ledger(self) if self._make_ledger else Silent()

    @property
    def reviews(self) -> Reviews:
        """Created only when results are judged: other commands load no councils."""
        return self._make_reviews(self.repository.root)

    @property
    def author(self) -> Author:
        return Author(self.config.rig_id, self.config.display_name)

    @property
    def today(self) -> str:
        return iso_timestamp(self.now_ms())[:10]

    def tell_once(self, text: str) -> None:
        """Tell something that several steps of one command find out."""
        if text not in self._told:
            self._told.add(text)
            self.tell(text)

    def announce(self, kind: str, **facts: object) -> None:
        """Announce what was done: rig, thread, path and commit, never a body."""
        own = {"rig": str(self.settings.rig_id)} if self.settings else {}
        self._announcer(kind, {**own, **facts})
