"""Send envelopes into one thread, retrying lost races, and print where each one landed.

send_many.py CLONE RIG COUNT [no-push]
"""

from __future__ import annotations

import sys

from bridgehead.host.file_errors import FileTaken
from bridgehead.rigs.envelope.names import next_filename
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.records import Pushed, Wire

WIRE = Wire("origin", "main", "refs/remotes/origin/main")
clone, rig, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
push = "no-push" not in sys.argv


def post(repository: GitRepository, content: bytes) -> tuple[str, str]:
    taken = set(repository.filenames("demo-01"))
    while True:
        path = f"demo-01/{next_filename('STATE', taken)}"
        try:
            with repository.begin_posting(path, content) as posting:
                return path, posting.land(f"STATE: {path}")
        except FileTaken:
            taken.add(path.partition("/")[2])


for count in range(number):
    content = f"{rig} {count}\n".encode()
    repository = GitRepository(clone)
    with repository.lock():
        repository.recover()
        path, commit = post(repository, content)
        while push and not isinstance(repository.push(WIRE, commit), Pushed):
            rebuilt = repository.rebuild(repository.fetch(WIRE))
            if rebuilt is None:
                raise SystemExit("the remote did not only append")
            path, commit = next(
                (turn.path, turn.commit)
                for turn in rebuilt
                if turn.old_commit == commit
            )
    print(f"{rig} {count} {path}", flush=True)
