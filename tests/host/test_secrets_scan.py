"""Secrets are found wherever they stand, and what merely looks odd is left in peace.

Every fake secret is put together here at run time, so that no file of this repository looks as if it held one.
"""

from __future__ import annotations

import base64
import importlib
import json
import random
import string
from pathlib import Path
from typing import Any

import pytest
from detect_secrets.core.scan import scan_line
from detect_secrets.settings import transient_settings
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.host import secret_shapes, secrets_scan
from bridgehead.host.secrets_scan import (
    SecretHit,
    remembered,
    scan,
    with_secrets_masked,
    without_secrets,
)

LETTERS = string.ascii_letters
ALNUM = string.ascii_letters + string.digits
WORD = ALNUM + "_-"
HEX = "0123456789abcdef"
BASE64 = ALNUM + "+/"
UPPER = string.ascii_uppercase + string.digits


def drawn(alphabet: str, length: int, seed: int = 7) -> str:
    """Return `length` characters drawn from `alphabet`, the same ones every time; the last one ends a word."""
    source = random.Random(f"{alphabet}{length}{seed}")
    letters = [char for char in alphabet if char.isalnum()]
    return "".join(source.choices(alphabet, k=length - 1)) + source.choice(letters)


def web_token(header: dict[str, str]) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return ".".join(
        [part(header), part({"sub": "1234", "admin": True}), drawn(ALNUM, 43)]
    )


def pem(label: str) -> str:
    lines = "\n".join(drawn(BASE64, 64, seed) for seed in range(3))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----"


# kind -> fake secret. The first piece of each is cut in two, for the same reason.
FAKES: dict[str, str] = {
    "aws-access-key": "AK" + "IA" + drawn(UPPER, 16),
    "google-api-key": "AI" + "za" + drawn(WORD, 35),
    "google-oauth-secret": "GOC" + "SPX-" + drawn(WORD, 28),
    "google-oauth-token": "ya" + "29." + drawn(WORD, 120),
    "anthropic-key": "sk-" + "ant-api03-" + drawn(WORD, 95),
    "openrouter-key": "sk-" + "or-v1-" + drawn(HEX, 64),
    "openai-key": "sk-" + "proj-" + drawn(WORD, 80),
    "groq-key": "gs" + "k_" + drawn(ALNUM, 52),
    "xai-key": "xa" + "i-" + drawn(ALNUM, 80),
    "perplexity-key": "pp" + "lx-" + drawn(ALNUM, 48),
    "replicate-token": "r" + "8_" + drawn(ALNUM, 37),
    "huggingface-token": "h" + "f_" + drawn(LETTERS, 34),
    "github-token": "gh" + "p_" + drawn(ALNUM, 36),
    "gitlab-token": "gl" + "pat-" + drawn(WORD, 20),
    "slack-token": "xo" + "xb-" + drawn(string.digits, 12) + "-" + drawn(ALNUM, 24),
    "slack-webhook": "https://hooks.sl"
    "ack.com/services/T"
    + drawn(UPPER, 8)
    + "/B"
    + drawn(UPPER, 8)
    + "/"
    + drawn(ALNUM, 24),
    "discord-webhook": "https://discord.com/api/webhooks/"
    + drawn("123456789", 18)
    + "/"
    + drawn(WORD, 68),
    "stripe-key": "sk_" + "live_" + drawn(ALNUM, 24),
    "stripe-webhook-secret": "wh" + "sec_" + drawn(ALNUM, 32),
    "npm-token": "np" + "m_" + drawn(ALNUM, 36),
    "pypi-token": "py" + "pi-AgEIcHlwaS5vcmc" + drawn(WORD, 80),
    "sendgrid-key": "S" + "G." + drawn(WORD, 22) + "." + drawn(WORD, 43),
    "twilio-key": "S" + "K" + drawn(HEX, 32),
    "telegram-bot-token": drawn("123456789", 10) + ":A" + "A" + drawn(WORD, 33),
    "digitalocean-token": "do" + "p_v1_" + drawn(HEX, 64),
    "docker-token": "dckr" + "_pat_" + drawn(WORD, 27),
    "grafana-token": "gl" + "sa_" + drawn(ALNUM, 32) + "_" + drawn(HEX, 8),
    "vault-token": "hv" + "s." + drawn(WORD, 24),
    "tailscale-key": "ts" + "key-auth-" + drawn(ALNUM, 12) + "-" + drawn(ALNUM, 32),
    "shopify-token": "sh" + "pat_" + drawn(HEX, 32),
    "linear-key": "lin" + "_api_" + drawn(ALNUM, 40),
    "azure-storage-key": "Account" + "Key=" + drawn(BASE64, 86) + "==",
    "age-key": "AGE-SECRET" + "-KEY-1" + drawn("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "jwt": web_token({"alg": "HS256", "typ": "JWT"}),
    "url-password": "postgres://ann:" + "hunt" + "er2" + "@db.corp.net/orders",
    "high-entropy-value": "client_secret=" + drawn(ALNUM, 32),
    "password": "password='" + "Tr0ub4dor" + "&3x'",
}
VARIANTS: list[tuple[str, str]] = [
    ("jwt", web_token({"alg": "HS256"})),
    ("url-password", "postgres://postgres:postgres" + "@db.corp.net/orders"),
    ("aws-access-key", "AS" + "IA" + drawn(UPPER, 16, 2)),
    ("openai-key", "sk-" + drawn(ALNUM, 20) + "T3Blbk" + "FJ" + drawn(ALNUM, 20, 2)),
    ("openai-key", "sk-" + drawn(HEX, 32)),
    ("openai-key", "sk-" + "svcacct-" + drawn(WORD, 60)),
    ("github-token", "github" + "_pat_" + drawn(ALNUM, 22) + "_" + drawn(ALNUM, 59)),
    *[("github-token", f"gh{letter}" + "_" + drawn(ALNUM, 36)) for letter in "ousr"],
    ("gitlab-token", "gl" + "agent-" + drawn(WORD, 50)),
    (
        "slack-token",
        "xa"
        "pp-1-"
        + drawn(UPPER, 11)
        + "-"
        + drawn(string.digits, 13)
        + "-"
        + drawn(HEX, 64),
    ),
    ("stripe-key", "rk_" + "test_" + drawn(ALNUM, 99)),
    *[
        ("private-key", pem(label))
        for label in (
            "PRIVATE " + "KEY",
            "RSA PRIVATE " + "KEY",
            "EC PRIVATE " + "KEY",
            "OPENSSH PRIVATE " + "KEY",
            "ENCRYPTED PRIVATE " + "KEY",
            "PGP PRIVATE " + "KEY BLOCK",
        )
    ],
]
POSITIVES = [*FAKES.items(), *VARIANTS]

FRAMES: dict[str, str] = {
    "alone": "{}",
    "in prose": "please use {} from now on, and tell nobody",
    "added in a diff": "+{}",
    "removed in a diff": "-{}",
    "in a Markdown quote": "> > {}",
    "in a Markdown list": "  - {}",
    "in Markdown code": "run it with `{}` set",
    "in an HTML attribute": '<input value="{}">',
    "after an escaped line break": r"first line\n{}",
    "in a shell command": "curl -H 'X: {}' https://api.corp.net",
    "before a full stop": "it was {}.",
}


# --- what has to be found


@pytest.mark.parametrize(
    ("kind", "fake"), POSITIVES, ids=[kind for kind, _ in POSITIVES]
)
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_secret_is_found_wherever_it_stands(kind: str, fake: str, frame: str) -> None:
    hits = scan("harmless\n\n" + frame.format(fake) + "\nharmless\n")
    assert [(hit.kind, hit.line) for hit in hits] == [(kind, 3)]


ORACLE_KINDS = {
    *(
        "aws-access-key",
        "openai-key",
        "github-token",
        "gitlab-token",
        "slack-token",
        "slack-webhook",
        "stripe-key",
    ),
    *(
        "pypi-token",
        "sendgrid-key",
        "twilio-key",
        "telegram-bot-token",
        "azure-storage-key",
        "jwt",
        "url-password",
    ),
    *("password", "private-key"),
}
ORACLE_PLUGINS = [
    *(
        "AWSKeyDetector",
        "AzureStorageKeyDetector",
        "BasicAuthDetector",
        "GitHubTokenDetector",
        "GitLabTokenDetector",
    ),
    *(
        "JwtTokenDetector",
        "OpenAIDetector",
        "PrivateKeyDetector",
        "PypiTokenDetector",
        "SendGridDetector",
    ),
    *(
        "SlackDetector",
        "StripeDetector",
        "TelegramBotTokenDetector",
        "TwilioKeyDetector",
        "KeywordDetector",
    ),
]
# Shapes newer than the oracle, which only knows older ones of the same provider.
UNKNOWN_TO_ORACLE = (
    "github_pat_",
    "sk-proj-",
    "sk-svcacct-",
    "glagent-",
    "xapp-",
    "rk_test_",
    "ENCRYPTED",
)


def oracle_sees(text: str) -> bool:
    with transient_settings(
        {"plugins_used": [{"name": name} for name in ORACLE_PLUGINS]}
    ):
        return any(True for line in text.splitlines() for _ in scan_line(line))


@pytest.mark.parametrize("prefix", ["", "+", "> "])
def test_what_detect_secrets_recognises_by_its_shape_we_recognise_too(
    prefix: str,
) -> None:
    known = [
        (kind, fake)
        for kind, fake in POSITIVES
        if kind in ORACLE_KINDS
        and not any(piece in fake for piece in UNKNOWN_TO_ORACLE)
        and fake != "sk-" + drawn(HEX, 32)
    ]
    assert {kind for kind, _ in known} == ORACLE_KINDS
    assert [kind for kind, fake in known if not oracle_sees(prefix + fake)] == []
    assert [kind for kind, fake in known if not scan(prefix + fake)] == []


RANDOM = drawn(ALNUM, 32)


@pytest.mark.parametrize(
    "line",
    [
        "api_key = '{}'",
        'API_KEY="{}"',
        "export SERVICE_TOKEN={}",
        "apiKey: '{}',",
        '"apiKey": "{}",',
        r"{{\"apiKey\": \"{}\"}}",
        "api_key: str = '{}'",
        "api_key: str | None = '{}'",
        "self._client_secret = b'{}'",
        "X-Api-Key: {}",
        "Authorization: Bearer {}",
        "-H 'Authorization: token {}'",
        "headers['Authorization'] = 'Basic {}'",
        "https://api.corp.net/v1?api_key={}&page=2",
        'os.environ.setdefault("AUTH_TOKEN", "{}")',
        "<apiToken>{}</apiToken>",
        "--api-key {}",
        "tool --secret={} run",
        "aws_secret_access_key = {}",
        "const accessToken = `{}`;",
        "//registry.corp.net/:_authToken={}",
        'password := "{}"',
        "- name: encryption-key => {}",
        "signing_key == '{}'",
    ],
)
def test_a_random_value_under_the_name_of_a_secret_is_found(line: str) -> None:
    for text in (
        line.format(RANDOM),
        "+" + line.format(RANDOM),
        "> " + line.format(RANDOM),
    ):
        assert len(scan(text)) == 1, text


ALPHABETS = [
    (HEX, 32),
    (HEX.upper(), 40),
    (BASE64, 40),
    (ALNUM, 16),
    (string.digits + string.ascii_lowercase, 24),
]


@pytest.mark.parametrize(
    "value", [drawn(alphabet, length) for alphabet, length in ALPHABETS]
)
def test_random_values_of_every_usual_alphabet_are_found(value: str) -> None:
    assert [hit.kind for hit in scan(f'auth_token = "{value}"')] == [
        "high-entropy-value"
    ]


def test_every_secret_of_a_text_is_reported_in_order_with_line_and_column() -> None:
    first, second = FAKES["github-token"], FAKES["npm-token"]
    text = f"größe {first} and {second}\r\n\n漢字: {first}"
    assert scan(text) == [
        SecretHit("github-token", 1, 7),
        SecretHit("npm-token", 1, 7 + len(first) + 5),
        SecretHit("github-token", 3, 5),
    ]


def test_one_secret_is_reported_once_under_its_most_telling_kind() -> None:
    token = FAKES["github-token"]
    assert [hit.kind for hit in scan(f"GITHUB_TOKEN={token}")] == ["github-token"]
    assert [hit.kind for hit in scan(f"https://ann:{token}@github.com/org/repo")] == [
        "github-token"
    ]


def test_a_key_in_a_diff_is_found_although_every_line_is_prefixed() -> None:
    for prefix in ("+", "-", " ", "> ", "    "):
        text = "".join(
            f"{prefix}{line}\n" for line in pem("PRIVATE " + "KEY").splitlines()
        )
        assert scan(text) == [SecretHit("private-key", 1, 1 + len(prefix))]


def test_a_key_inside_a_json_string_is_found() -> None:
    text = json.dumps(
        {"type": "service_account", "private_key": pem("PRIVATE " + "KEY")}
    )
    assert [hit.kind for hit in scan(text)] == ["private-key"]


def test_the_value_is_in_nothing_that_is_returned() -> None:
    for _, fake in POSITIVES:
        for hit in scan(fake):
            assert fake[:12] not in repr(hit)


def test_bytes_are_scanned_like_text_whatever_they_hold() -> None:
    token = FAKES["github-token"].encode()
    assert scan(b"\xff\xfe\n\x00 " + token) == [SecretHit("github-token", 2, 3)]
    assert scan("\ud800 " + token.decode()) == scan(b"\xed\xa0\x80 " + token)


# --- what has to be left in peace

SHA256, SHA1 = drawn(HEX, 64), drawn(HEX, 40)
IMAGE = base64.b64encode(random.Random(3).randbytes(3000)).decode()
NOT_A_TOKEN = (
    base64.urlsafe_b64encode(json.dumps({"page": 3, "sort": "name"}).encode())
    .decode()
    .rstrip("=")
)

NEGATIVES: list[str] = [
    "",
    "The token is opaque; keep your password secret and rotate the key.",
    "id: 123e4567-e89b-12d3-a456-426614174000",
    "session_token: 123e4567-e89b-12d3-a456-426614174000",
    f"body_hash: {SHA256}",
    f'"token_hash": "{SHA256}"',
    f"sha = '{SHA1}'",
    f"commit {SHA1}",
    f"git revert {SHA1} --no-edit",
    f"index {SHA1[:7]}..{SHA1[7:14]} 100644",
    f"key_fingerprint = {SHA1}",
    f"cache_key = '{SHA256}'",
    f'checksum = "{SHA256}"',
    f'      "integrity": "sha512-{drawn(BASE64, 86)}==",',
    f"  integrity sha512-{drawn(BASE64, 86)}==",
    f'"key": "sha512-{drawn(BASE64, 86)}=="',
    f'    {{file = "x-1.0.tar.gz", hash = "sha256:{SHA256}"}},',
    f"golang.org/x/sys v0.1.0 h1:{drawn(BASE64, 43)}=",
    f"![logo](data:image/png;base64,{IMAGE})",
    f'"token_icon": "data:image/png;base64,{IMAGE}"',
    IMAGE,
    "api_key = 'your-key-here'",
    "api_key = '<token>'",
    "API_KEY=${API_KEY}",
    "API_KEY=$API_KEY_FROM_VAULT_2",
    "token: ${{ secrets.GITHUB_TOKEN }}",
    "password: {{ vault_password }}",
    "api_key = os.environ['API_KEY']",
    "api_key = os.getenv('SERVICE_API_KEY_2')",
    "apiKey: process.env.OPENAI_API_KEY_2,",
    "const token = await getToken4User(request)",
    "password = getpass.getpass('Password: ')",
    "token = settings.INTERNAL_API_TOKEN_V2",
    "secret = base64.b64encode(os.urandom(32))",
    "ghp" + "_" + "x" * 36,
    "sk-" + "ant-" + "x" * 40,
    "sk-" + "proj-your-key-goes-in-this-place",
    "AK" + "IAIOSFODNN7EXAMPLE",
    "xox" + "b-your-token-goes-here",
    "password = '********'",
    "password = 'changeme'",
    "password: Passwort",
    '"password": "Enter your password"',
    "passwordHint = 'At-Least-8-Characters'",
    "max_tokens = 4096",
    "tokens: 18200",
    "token: 4111111111111111",
    "tokenizer = 'cl100k_base'",
    "keyboard = 'de-latin1-nodeadkeys'",
    "monkey_patch = 'aB3dE5fG7hJ9kL1mN3pQ'",
    "primary_key = 'order_id_and_line_number'",
    f"public_key = '{drawn(BASE64, 44)}'",
    f"key = 'MCowBQYDK2VwAyEA{drawn(BASE64, 43)}='",
    "access_key_id = 'some-identifier-2026'",
    "key = 'com.example.app.settings.ThemeColour2'",
    "secretName: tls-certificate-production-2026",
    "token_url: https://login.corp.net/oauth2/v2.0/token",
    "key: src/components/Button2/index.module.css",
    "getUserByAccessTokenAndRefreshToken2(request)",
    "sk-folding-cube sk-cube1 sk-circle10",
    "desk-lamp-with-a-very-long-name-that-goes-on-and-on",
    "git@github.com:org/repo.git",
    "http://localhost:8080/path@2x.png",
    "https://host.corp.net:8443/a:b@c",
    "https://ann@git.corp.net/repo.git",
    "postgres://postgres:postgres@localhost:5432/app",
    "amqp://guest:guest@rabbitmq:5672/",
    "https://user:${PASSWORD}@host.corp.net/",
    "https://user:password@host.corp.net/",
    "https://<user>:<password>@host.corp.net/",
    "https://user:***@host.corp.net/",
    pem("PUBLIC KEY"),
    pem("CERTIFICATE"),
    'if "-----BEGIN ' + 'PRIVATE KEY-----" in text: refuse()',
    "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----\n" + SHA256,
    f"cursor={NOT_A_TOKEN}",
    f"{NOT_A_TOKEN}.{NOT_A_TOKEN}.{NOT_A_TOKEN}",
    "2026-11-15T10:15:02.123Z",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5" + "AAAAI" + drawn(BASE64, 43) + " ann@corp",
    "--recv-keys " + SHA1.upper(),
]


@pytest.mark.parametrize("text", NEGATIVES)
def test_what_only_looks_odd_is_left_in_peace(text: str) -> None:
    for line in (text, "+" + text, "- `" + text + "`"):
        assert scan(line) == [], line[:80]


# --- any text at all


@given(st.text() | st.text(alphabet="sk-ant_ghp:/@=\"'\\ \n.eyJAKIA0123456789<>"))
def test_fuzz_any_text_is_scanned_and_hits_lie_inside_it(text: str) -> None:
    lines = text.split("\n")
    for hit in scan(text):
        assert 1 <= hit.line <= len(lines)
        assert 1 <= hit.column <= len(lines[hit.line - 1])


@given(before=st.text(), after=st.text())
def test_fuzz_a_planted_secret_is_found_whatever_surrounds_it(
    before: str, after: str
) -> None:
    fake = FAKES["anthropic-key"]
    hits = scan(f"{before} {fake} {after}")
    planted = f"{before} "
    line, column = planted.count("\n") + 1, len(planted) - planted.rfind("\n")
    assert SecretHit("anthropic-key", line, column) in hits


@pytest.mark.parametrize(
    "fragment",
    [
        *(
            "sk-ant-",
            "sk-",
            "eyJ",
            "-eyJaaaaaaaa",
            "eyJhbGciOiJub25lIn0.a.",
            "://",
            "://a:b",
            "://a:b@",
            "key=",
            "key:",
        ),
        *(
            "token='",
            "password",
            "-----BEGIN ",
            "-----BEGIN A A A ",
            "xoxb-1-",
            "1234567890:AA",
            "SG.",
            "Bearer ",
        ),
        *(
            "api_key: str | ",
            'auth\\\\"',
            "SK" + "a" * 31,
            "AccountKey=",
            "key\t\t\t\t",
            "\\",
            "+",
            " ",
        ),
    ],
)
def test_fuzz_text_made_to_be_slow_is_scanned_in_one_go(fragment: str) -> None:
    assert isinstance(scan(fragment * (100_000 // len(fragment))), list)
    assert isinstance(
        scan((fragment * 40 + "\n") * (100_000 // len(fragment) // 40)), list
    )


def patterns() -> list[bytes | str]:
    constants = [
        value
        for module in (secrets_scan, secret_shapes, secret_shapes, secrets_scan)
        for name, value in vars(module).items()
        if name.startswith("_")
        and name.isupper()
        and isinstance(value, bytes | str)
        and name != "_KINDS"
    ]
    return [*constants, *(shape.pattern for shape in secret_shapes.SHAPES)]


def test_fuzz_no_pattern_repeats_without_a_bound() -> None:
    parser: Any = importlib.import_module("re._parser")
    assert len(patterns()) > 50
    for pattern in patterns():
        assert worst_case(parser.parse(pattern), parser.MAXREPEAT) <= 20_000, pattern


def worst_case(parsed: Any, without_bound: object) -> int:
    """Return how often the innermost part of a pattern can be repeated; a repetition without a bound fails."""
    worst = 1
    for operation, argument in parsed:
        name = str(operation)
        if name.endswith("REPEAT"):
            _, most, inner = argument
            assert most is not without_bound
            worst = max(worst, int(most) * worst_case(inner, without_bound))
        else:
            for inner in branches(argument):
                worst = max(worst, worst_case(inner, without_bound))
    return worst


def branches(argument: Any) -> list[Any]:
    """Return the parts of a parsed pattern that lie inside `argument`."""
    if type(argument).__name__ == "SubPattern":
        return [argument]
    if isinstance(argument, list | tuple):
        return [inner for item in argument for inner in branches(item)]
    return []


def test_a_text_is_shown_without_its_secrets_and_with_everything_else() -> None:
    body = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ"
    begin, end = (
        "-----BEGIN OPENSSH " + "PRIVATE KEY-----",
        "-----END OPENSSH " + "PRIVATE KEY-----",
    )
    key = "\n".join([begin, *[body] * 3, end])
    token = "gh" + "p_" + "a1B2c3D4e5F6" * 3
    text = f"before\n{key}\nbetween {token} and\nafter"

    shown, kinds = without_secrets(text)

    assert (
        shown
        == "before\n[left out: private-key]\nbetween [left out: github-token] and\nafter"
    )
    assert kinds == ("private-key", "github-token")
    assert without_secrets("nothing here") == ("nothing here", ())
    for hidden in (
        text.replace("\n", "\n+"),
        json.dumps(text),
        key.removesuffix(end) + "\nwords that follow",
    ):
        left = without_secrets(hidden)[0]
        assert body not in left and token not in left


@given(st.text(max_size=300))
def test_fuzz_a_text_without_secrets_stays_as_it_is(text: str) -> None:
    shown, kinds = without_secrets(text)
    assert kinds or shown == text


def test_clean_text_is_not_searched_again_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "cache" / "clean-texts"
    searched: list[bytes] = []
    monkeypatch.setattr(
        secrets_scan, "find_shapes", lambda text: searched.append(text) or iter(())
    )

    def process(*texts: bytes) -> list[bytes]:
        monkeypatch.setattr(secrets_scan, "_CLEAN", set())
        searched.clear()
        with remembered(kept):
            for text in texts:
                scan(text)
                scan(text)
        return list(searched)

    assert process(b"one", b"two") == [b"one", b"two"]
    assert process(b"two", b"one", b"three") == [b"three"]
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_bytes(kept.read_bytes() + b"torn")
    assert process(b"one") == [b"one"]
    kept.write_bytes(b"of another version" + kept.read_bytes()[18:])
    assert process(b"two") == [b"two"]


def test_text_with_a_secret_is_not_remembered_as_clean(tmp_path: Path) -> None:
    text = "token = '" + "ghp_" + drawn(ALNUM, 36) + "'"
    for _ in range(2):
        with remembered(tmp_path / "clean-texts"):
            assert [hit.kind for hit in scan(text)] == ["github-token"]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_key_that_json_spells_with_escapes_is_masked_and_the_json_stays_whole(
    depth: int,
) -> None:
    key = "ghp_" + "x7Kq2LmZ9vTnR4sWb8YcD1fGh5JkP3uQeA6i"
    spelled = "".join(f"\\u{ord(character):04x}" for character in key)
    text = json.dumps({"title": f'he said "{key}" \\ and left', "next": [1]})
    text = text.replace(key, spelled).replace("he said", "he \\u0022said\\u005c")
    for _ in range(depth - 1):
        text = json.dumps({"inside": text})

    masked, kinds = with_secrets_masked(text)

    read: Any = masked
    for _ in range(depth - 1):
        read = json.loads(read)["inside"]
    assert kinds == ("github-token",)
    assert json.loads(read) == {
        "title": 'he "said\\ "[left out: github-token]" \\ and left',
        "next": [1],
    }


def test_a_text_without_secrets_keeps_its_escapes() -> None:
    text = r'{"path": "C:\\users\/me", "title": "\u0041 \u0022 \u00e4"}'

    assert with_secrets_masked(text) == (text, ())
