"""Find the files of a clone that may be envelopes, and their contents (rigs §2).

git vouches for a tracked file that it reports as unchanged: the file holds the blob
that git's index names. Any other file is read and hashed at every look.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bridgehead.rigs.envelope.names import is_envelope_name

if TYPE_CHECKING:
    from bridgehead.rigs.repositories.git.repository import GitRepository
    from bridgehead.rigs.repositories.git.survey import GitSurvey

LOOSE = "~"
_LINK = "link "


class EnvelopeFiles:
    """The `.md` files in the threads of a clone, or in one thread."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.content_ids: dict[str, str] = {}  # by path
        self.loose: dict[str, bytes] = {}  # contents of files that were read, by path
        self.unreadable: dict[str, list[str]] = {}  # file names, by thread

    def add_loose(self, path: str, blob: str, content: bytes) -> None:
        self.content_ids[path] = blob
        self.loose[path] = content

    def add_loose_link(self, path: str) -> None:
        self.content_ids[path] = _LINK

    def add_unreadable(self, thread: str, filename: str) -> None:
        self.unreadable.setdefault(thread, []).append(filename)

    def is_link(self, path: str) -> bool:
        return self.content_ids[path].startswith(_LINK)

    def is_committed_content(self, path: str) -> bool:
        """Return whether git has the content of a regular file."""
        return path not in self.loose and not self.is_link(path)

    def content(self, path: str) -> str:
        """Return the blob id of a file, after a `~` unless git vouches for it."""
        content_id = self.content_ids.get(path, "").removeprefix(_LINK)
        if path in self.loose or not content_id:
            return f"{LOOSE}{content_id}"
        return content_id

    def contents_by_thread(self) -> dict[str, frozenset[tuple[str, str]]]:
        """Return paths with their contents, by thread."""
        found: dict[str, set[tuple[str, str]]] = {name: set() for name in self.threads}
        for path in self.content_ids:
            thread = path.partition("/")[0]
            found[thread].add((path, self.content(path)))
        for thread, filenames in self.unreadable.items():
            found[thread].update((filename, LOOSE) for filename in filenames)
        return {name: frozenset(contents) for name, contents in found.items()}


def find_files(repository: "GitRepository", survey: "GitSurvey") -> EnvelopeFiles:
    """Return the files of everything that was surveyed."""
    files = EnvelopeFiles()
    tracked = survey.tracked()
    changed = {file.path for file in survey.dirty if file.differs_from_index}
    for thread in sorted(survey.directories):
        names = survey.names_in(thread)
        if not names:
            continue
        files.threads.append(thread)
        loose: list[str] = []
        for filename in filter(is_envelope_name, names):
            path = f"{thread}/{filename}"
            file = tracked.get(path)
            if file is None or file.blob is None or path in changed:
                loose.append(filename)
            elif file.is_symlink:
                files.content_ids[path] = f"{_LINK}{file.blob}"
            else:
                files.content_ids[path] = file.blob
        _add_loose(files, repository, thread, loose)
    return files


def _add_loose(
    files: EnvelopeFiles,
    repository: "GitRepository",
    thread: str,
    filenames: Iterable[str],
) -> None:
    """Read files that git does not vouch for; only regular ones count."""
    regular: list[str] = []
    for filename in filenames:
        path = f"{thread}/{filename}"
        stamp = repository.stamp(path)
        if stamp is None:
            continue
        if stamp.is_symlink:
            files.add_loose_link(path)
        else:
            regular.append(filename)
    contents = repository.read_files(thread, regular)
    for filename, content in zip(regular, contents, strict=True):
        if content is None:
            files.add_unreadable(thread, filename)
        else:
            path = f"{thread}/{filename}"
            files.add_loose(path, repository.blob_id(content), content)
