"""Only one kind of signature passes: good, by a key that the file of signers names (rigs §10, hazard 24)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridgehead.rigs.repositories.errors import CommitFailed, SigningFailed
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.trust.attestation import Signature, names_key
from bridgehead.rigs.trust.signers import key_name, public_key_fingerprint
from rigs.support.git_world import World

TORN = b"-----BEGIN SSH SIGNATURE-----\n U1NIU0lH"
MakeKey = Callable[[str], Path]


def use_key(world: World, clone: Path, key: Path | str) -> GitRepository:
    world.git("config", "gpg.format", "ssh", at=clone)
    world.git("config", "user.signingkey", str(key), at=clone)
    return GitRepository(clone)


def relay(repository: GitRepository, name: str = "RELAY-0000000001.md") -> str:
    (Path(repository.root) / "demo-01").mkdir(exist_ok=True)
    with (
        repository.lock(),
        repository.begin_posting(f"demo-01/{name}", b"x") as posting,
    ):
        return posting.land("DECISIONS (relay): demo-01 nonce=1", must_sign=True)


def signers(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "allowed_signers"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def rewrite(
    world: World, clone: Path, commit: str, change: Callable[[bytes], bytes]
) -> str:
    """Forge: store the commit with some bytes changed, signature and all."""
    raw = subprocess.run(
        ["git", "cat-file", "commit", commit],
        cwd=clone,
        capture_output=True,
        check=True,
    ).stdout
    stored = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=clone,
        input=change(raw),
        capture_output=True,
        check=True,
    )
    return stored.stdout.decode().strip()


@pytest.fixture
def key(make_key: MakeKey) -> Path:
    return make_key("mike")


def test_of_all_that_a_signature_can_be_only_one_is_known(
    world, clone, key, make_key, tmp_path
):
    repository = use_key(world, clone, key)
    signed = relay(repository)
    plain = world.commit(clone, {"demo-01/PLAIN.md": b"x"})
    body_edited = rewrite(
        world, clone, signed, lambda raw: raw.replace(b"nonce=1", b"nonce=2")
    )
    author_edited = rewrite(
        world,
        clone,
        signed,
        lambda raw: raw.replace(b"author Op One", b"author Op Two"),
    )
    moved = rewrite(
        world, clone, plain, lambda raw: _with_signature_of(world, clone, signed, raw)
    )
    garbage = rewrite(
        world,
        clone,
        plain,
        lambda raw: raw.replace(b"\n\n", b"\ngpgsig nonsense\n\n", 1),
    )
    torn = rewrite(
        world,
        clone,
        plain,
        lambda raw: raw.replace(b"\n\n", b"\ngpgsig " + TORN + b"\n\n", 1),
    )
    stranger = relay(use_key(world, clone, make_key("eve")), "RELAY-0000000002.md")
    commits = [
        plain,
        signed,
        body_edited,
        author_edited,
        moved,
        garbage,
        torn,
        stranger,
    ]

    checks = repository.check_signatures(
        commits,
        signers(
            tmp_path, "# ours", f'op1@example.com namespaces="git" {key.read_text()}'
        ),
    )

    assert [checks[commit].signature for commit in commits] == [
        Signature.NONE,
        Signature.KNOWN,
        Signature.BAD,
        Signature.BAD,
        Signature.BAD,
        Signature.BAD,
        Signature.BAD,
        Signature.STRANGER,
    ]
    assert checks[signed].principal == "op1@example.com"
    assert checks[signed].key_names == (repository.signing_key(),)
    assert checks[stranger].principal is None


def _with_signature_of(world: World, clone: Path, signed: str, raw: bytes) -> bytes:
    headers = world.git("cat-file", "commit", signed, at=clone).partition("\n\n")[0]
    signature = headers[headers.index("\ngpgsig ") :].encode()
    return raw.replace(b"\n\n", signature + b"\n\n", 1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ('namespaces="git"', Signature.KNOWN),
        ("", Signature.KNOWN),
        ('namespaces="file"', Signature.BAD),
        ('namespaces="git",valid-before="20200101"', Signature.STRANGER),
        ('namespaces="git",valid-after="20990101"', Signature.STRANGER),
        ('cert-authority,namespaces="git"', Signature.STRANGER),
    ],
)
def test_what_the_file_limits_a_key_to_counts(
    world, clone, key, tmp_path, options, expected
):
    repository = use_key(world, clone, key)
    signed = relay(repository)
    file = signers(tmp_path, f"op1@example.com {options} {key.read_text()}")
    assert repository.check_signatures([signed], file)[signed].signature is expected


def test_a_revoked_key_is_bad(world, clone, key, tmp_path):
    repository = use_key(world, clone, key)
    signed = relay(repository)
    krl = tmp_path / "revoked"
    subprocess.run(
        ["ssh-keygen", "-q", "-k", "-f", str(krl), str(key)],
        check=True,
        capture_output=True,
    )
    world.git("config", "gpg.ssh.revocationFile", str(krl), at=clone)
    file = signers(tmp_path, f'op1@example.com namespaces="git" {key.read_text()}')
    assert (
        GitRepository(clone).check_signatures([signed], file)[signed].signature
        is Signature.BAD
    )


def test_a_file_that_gits_own_configuration_names_does_not_sneak_in(
    world, clone, key, tmp_path
):
    repository = use_key(world, clone, key)
    signed = relay(repository)
    file = signers(tmp_path, f'op1@example.com namespaces="git" {key.read_text()}')
    world.git("config", "gpg.ssh.allowedSignersFile", str(file), at=clone)
    repository = GitRepository(clone)
    assert repository.allowed_signers() == file
    assert (
        repository.check_signatures([signed], None)[signed].signature
        is Signature.STRANGER
    )


def test_a_signature_quoted_in_a_message_is_none(world, clone):
    said = "look\n\ngpgsig -----BEGIN SSH SIGNATURE-----\ngpgsig nonsense\n"
    commit = world.commit(clone, {"demo-01/PLAIN.md": b"x"}, said)
    assert (
        GitRepository(clone).check_signatures([commit], None)[commit].signature
        is Signature.NONE
    )


def test_gpgsign_is_honoured_without_being_demanded(world, clone, key):
    use_key(world, clone, key)
    world.git("config", "commit.gpgsign", "true", at=clone)
    repository = GitRepository(clone)
    (Path(repository.root) / "demo-01").mkdir(exist_ok=True)
    with repository.lock(), repository.begin_posting("demo-01/ACK.md", b"x") as posting:
        commit = posting.land("ACK: x")
    assert [*repository.history(commit).commits][-1].signed
    world.git("config", "user.signingkey", "/no/such/key.pub", at=clone)
    repository = GitRepository(clone)
    with (
        pytest.raises(CommitFailed, match="git commit failed"),
        repository.lock(),
        repository.begin_posting("demo-01/ACK-2.md", b"x") as posting,
    ):
        posting.land("ACK: x")
    assert world.porcelain(clone) == []


@pytest.mark.parametrize(
    "key_setting", ["/no/such/key.pub", "", "ssh-ed25519 AAAAnonsense"]
)
def test_a_key_that_cannot_sign_fails_loudly_and_leaves_nothing(
    world, clone, key_setting
):
    repository = use_key(world, clone, key_setting)
    head = world.head(clone)
    with pytest.raises(SigningFailed, match="signing failed"):
        relay(repository)
    assert world.head(clone) == head
    assert world.porcelain(clone) == []


def test_a_signing_program_that_lies_is_found_out(world, clone, key, tmp_path):
    """It exits 0 but writes no signature: the commit must not count as signed."""
    liar = tmp_path / "liar"
    liar.write_text('#!/bin/sh\nfor last; do :; done\n: > "$last.sig"\nexit 0\n')
    liar.chmod(0o755)
    use_key(world, clone, key)
    world.git("config", "gpg.ssh.program", str(liar), at=clone)
    with pytest.raises(SigningFailed):
        relay(GitRepository(clone))
    assert world.porcelain(clone) == []


def test_a_key_is_named_by_its_fingerprint_however_it_is_configured(
    world, clone, key, home
):
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", str(key)], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    text = key.read_text().strip()
    (home / "key.pub").write_text(text)
    for setting in (
        str(key),
        str(key.with_suffix("")),
        text,
        f"key::{text}",
        "~/key.pub",
    ):
        assert use_key(world, clone, setting).signing_key() == fingerprint
    assert public_key_fingerprint(text) == fingerprint
    assert public_key_fingerprint("ssh-ed25519 AAAA") is None
    assert use_key(world, clone, "/no/such.pub").signing_key() == "/no/such.pub"
    world.git("config", "--unset", "user.signingkey", at=clone)
    assert GitRepository(clone).signing_key() is None


def test_without_the_tool_a_key_keeps_the_name_it_was_configured_with(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    for key_format in ("ssh", "openpgp", "x509"):
        assert key_name("ABCDEF", key_format=key_format) == "ABCDEF"


@pytest.fixture
def gpg_home(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    if shutil.which("gpg") is None:
        pytest.skip("gpg is not installed")
    directory = tmp_path / "g"  # short: gpg-agent's socket has a length limit
    directory.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(directory))
    made = subprocess.run(
        [
            "gpg",
            "--batch",
            "--passphrase",
            "",
            "--quick-gen-key",
            "Op One <op1@example.com>",
            "ed25519",
            "sign",
            "0",
        ],
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"gpg cannot make a key here: {made.stderr.decode()}")
    yield directory
    subprocess.run(
        ["gpgconf", "--homedir", str(directory), "--kill", "all"],
        capture_output=True,
        check=False,
    )


def test_openpgp_signatures_are_judged_by_the_keyring(
    world, clone, gpg_home, monkeypatch, tmp_path
):
    listed = subprocess.run(
        ["gpg", "--with-colons", "--list-secret-keys"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    fingerprint = next(
        line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr")
    )
    world.git("config", "user.signingkey", fingerprint[-16:], at=clone)
    repository = GitRepository(clone)
    assert repository.signing_key() == fingerprint
    signed = relay(repository)
    forged = rewrite(
        world, clone, signed, lambda raw: raw.replace(b"nonce=1", b"nonce=2")
    )

    checks = repository.check_signatures([signed, forged], None)

    assert checks[signed].signature is Signature.KNOWN
    assert checks[signed].principal == "op1@example.com"
    assert names_key(fingerprint[-16:], checks[signed].key_names)
    assert not names_key("0123456789ABCDEF", checks[signed].key_names)
    assert checks[forged].signature is Signature.BAD

    elsewhere = tmp_path / "e"
    elsewhere.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(elsewhere))
    unknown = GitRepository(clone).check_signatures([signed], None)
    assert unknown[signed].signature is Signature.STRANGER


def gpg(*arguments: str, at: str = "") -> str:
    """Run gpg, as it would have been run at a time in the past (`20200101T000000`) if one is given."""
    past = ["--faked-system-time", f"{at}!"] if at else []
    done = subprocess.run(
        ["gpg", "--batch", "--yes", "--passphrase", "", *past, *arguments],
        capture_output=True,
        check=True,
    )
    return done.stdout.decode()


def key_made_in_the_past(lifetime: str) -> str:
    gpg(
        "--quick-gen-key",
        "Op Old <op1@example.com>",
        "ed25519",
        "sign",
        lifetime,
        at="20200101T000000",
    )
    listed = gpg("--with-colons", "--list-keys", "=Op Old <op1@example.com>")
    return next(
        line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr")
    )


def signed_in_the_past(
    world: World, clone: Path, tmp_path: Path, key: str, *options: str
) -> str:
    program = tmp_path / "gpg-in-2020"
    program.write_text(
        f'#!/bin/sh\nexec gpg --faked-system-time 20200101T120000! {" ".join(options)} "$@"\n'
    )
    program.chmod(0o755)
    world.git("config", "user.signingkey", key, at=clone)
    world.git("config", "gpg.program", str(program), at=clone)
    commit = relay(GitRepository(clone))
    world.git("config", "--unset", "gpg.program", at=clone)
    return commit


@pytest.mark.parametrize(
    ("lifetime", "options", "code"),
    [("1d", (), "Y"), ("0", ("--default-sig-expire", "1d"), "X")],
    ids=["the key has expired", "the signature has expired"],
)
def test_an_openpgp_signature_past_its_time_is_not_known(
    world: World,
    clone: Path,
    gpg_home: Path,
    tmp_path: Path,
    lifetime: str,
    options: tuple[str, ...],
    code: str,
) -> None:
    signed = signed_in_the_past(
        world, clone, tmp_path, key_made_in_the_past(lifetime), *options
    )
    assert world.git("log", "-1", "--format=%G?", signed, at=clone).strip() == code
    assert (
        GitRepository(clone).check_signatures([signed], None)[signed].signature
        is Signature.STRANGER
    )


def test_an_openpgp_signature_by_a_key_that_was_revoked_since_is_bad(
    world: World, clone: Path, gpg_home: Path, tmp_path: Path
) -> None:
    key = key_made_in_the_past("0")
    signed = signed_in_the_past(world, clone, tmp_path, key)
    assert (
        GitRepository(clone).check_signatures([signed], None)[signed].signature
        is Signature.KNOWN
    )
    prepared = (gpg_home / "openpgp-revocs.d" / f"{key}.rev").read_text()
    revocation = tmp_path / "revoke.asc"
    revocation.write_text(
        prepared[prepared.index(":-----BEGIN") + 1 :]
    )  # the colon guards against accidents
    gpg("--import", str(revocation))
    assert world.git("log", "-1", "--format=%G?", signed, at=clone).strip() == "R"
    assert (
        GitRepository(clone).check_signatures([signed], None)[signed].signature
        is Signature.BAD
    )


def test_an_openpgp_signature_nobody_vouches_for_is_not_known(
    world: World, clone: Path, gpg_home: Path, tmp_path: Path
) -> None:
    key = key_made_in_the_past("0")
    signed = signed_in_the_past(world, clone, tmp_path, key)
    trust = tmp_path / "trust"
    trust.write_text(
        f"{key}:2:\n"
    )  # "undefined": the key is here, and nobody says whose it is
    gpg("--import-ownertrust", str(trust))
    assert world.git("log", "-1", "--format=%G?", signed, at=clone).strip() == "U"
    assert (
        GitRepository(clone).check_signatures([signed], None)[signed].signature
        is Signature.STRANGER
    )
