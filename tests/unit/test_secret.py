import base64
import copy
import gc
import json
import logging
import pickle
import re
import string
import threading
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, quote_plus
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

import worker_app
from worker_app import secret as sanitiser
from worker_app.secret import Secret, looks_like_secret, redacted, redacted_tree, sanitized

CANARY = "ghp_canary8f3a"
TOP = Path(worker_app.__file__).parent


@dataclass(frozen=True, slots=True)
class Holder:
    host: str
    token: Secret


@pytest.fixture
def secret() -> Secret:
    return Secret(CANARY)


def test_secret_is_revealed_to_whoever_asks(secret: Secret) -> None:
    assert secret.reveal() == CANARY


def test_secret_shows_stars_in_every_text(secret: Secret) -> None:
    shown = [
        repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", f"{secret:>40}", format(secret, "s"),
        repr([secret]), repr(Holder("h", secret)), str(ValueError(secret)),
    ]  # fmt: skip
    assert [text for text in shown if CANARY in text or "***" not in text] == []


def test_secret_shows_stars_in_a_log(secret: Secret, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("test").warning("token %s of %r", secret, Holder("h", secret))
    assert "***" in caplog.text
    assert CANARY not in caplog.text


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_secret_cannot_be_pickled(secret: Secret, protocol: int) -> None:
    for item in (secret, Holder("h", secret), {"token": [secret]}):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(item, protocol)


def test_secret_gives_its_state_to_nobody(secret: Secret) -> None:
    with pytest.raises(TypeError):
        secret.__getstate__()
    with pytest.raises(TypeError):
        vars(secret)


def test_secret_is_not_json(secret: Secret) -> None:
    with pytest.raises(TypeError):
        json.dumps({"token": secret})
    assert CANARY not in json.dumps({"token": secret}, default=str)


def test_copies_of_a_secret_are_itself(secret: Secret) -> None:
    assert copy.copy(secret) is secret
    assert copy.deepcopy([secret])[0] is secret
    assert asdict(Holder("h", secret))["token"] is secret


def test_secret_has_no_hash(secret: Secret) -> None:
    with pytest.raises(TypeError):
        hash(secret)
    with pytest.raises(TypeError):
        {secret: 1}  # noqa: B018 - making it is the test


def test_secret_is_frozen(secret: Secret) -> None:
    with pytest.raises(AttributeError):
        secret._value = "other"
    with pytest.raises(AttributeError):
        secret.more = "other"
    assert secret.reveal() == CANARY


def test_secrets_are_equal_by_their_text_and_to_nothing_else(secret: Secret) -> None:
    assert secret == Secret(CANARY)
    assert secret != Secret("other")
    assert secret != CANARY
    assert Secret("ä") == Secret("ä")


HELD = "pa/ss+wörd ~&=12"  # no shape gives it away
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAcanary0123456789ABCDEFGH\n"
    "qwertyuiop0123456789ABCDEFGHJKLM\n-----END RSA PRIVATE KEY-----\n"
)


@pytest.mark.parametrize("value", [HELD, PEM, HELD + "\n"])
def test_living_secret_is_redacted_in_every_form_in_which_it_travels(value: str) -> None:
    held = Secret(value)
    bare = value.strip()
    shown = [
        bare, f"it is {bare}!", json.dumps({"a": bare}), json.dumps([bare], ensure_ascii=False), repr(bare), repr(bare.encode()),
        bare.replace("\n", "\r\n"), quote(bare), quote(bare, safe=""), quote_plus(bare), quote(quote(bare, safe=""), safe=""),
    ]  # fmt: skip
    encode = (base64.b64encode, base64.urlsafe_b64encode)
    shown += [
        to(f"{user}:{bare}".encode()).decode()
        for to in encode
        for user in ("", "a", "ab", "me@x.example", "x-access-token")
    ]
    for text in shown:
        for piece in (bare[:12], *bare.splitlines(), base64.b64encode(bare.encode()).decode()[4:20]):
            assert piece not in redacted(text)
        assert "***" in redacted(text)
    assert held.reveal() == value


def test_line_of_a_living_key_is_redacted_alone() -> None:
    held = Secret(PEM)
    assert redacted("at qwertyuiop0123456789ABCDEFGHJKLM") == "at ***"
    del held


def test_secret_that_begins_another_leaves_no_rest() -> None:
    held = [Secret("correct-horse"), Secret("correct-horse-battery")]
    assert redacted("correct-horse-battery and correct-horse") == "*** and ***"
    assert len(held) == 2


def test_secret_is_forgotten_when_it_dies() -> None:
    held = Secret("staple-of-a-correct-horse")
    assert redacted("staple-of-a-correct-horse") == "***"
    del held
    gc.collect()
    assert redacted("staple-of-a-correct-horse") == "staple-of-a-correct-horse"


def test_short_secret_is_not_looked_for() -> None:
    held = Secret("the")
    assert redacted("the other") == "the other"
    assert held == Secret("the")


def test_secrets_that_come_and_go_in_threads_disturb_no_redaction() -> None:
    held, ended = Secret(HELD), []

    def churn() -> None:
        for number in range(2000):
            Secret(f"another-{number}")
        ended.append(threading.current_thread())

    threads = [threading.Thread(target=churn) for _ in range(4)]
    for thread in threads:
        thread.start()
    seen = {redacted(f"it is {HELD}") for _ in range(500)}
    for thread in threads:
        thread.join()
    assert (seen, len(ended), held.reveal()) == ({"it is ***"}, 4, HELD)


TOKENS = [
    "ghp_" + "aB3" * 12, "gho_" + "x" * 36, "ghu_" + "x" * 36, "ghs_123456_eyJhbGciOiJ9.eyJpc3MiOjF9.c2ln-_",
    "ghr_" + "x" * 36,
    "github_pat_" + "1A_" * 20, "glpat-" + "x-_" * 8, "glpat-" + "x" * 20 + ".01.0w1abcd", "gloas-" + "0f" * 20,
    "lin_api_" + "aB3" * 12,
    "lin_oauth_" + "0f" * 32, "ATATT3xFfGF0" + "aB-_" * 12 + "=1A2B3C",
    "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIn0.c2lnbmF0dXJl-_x",
]  # fmt: skip


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize(
    "around", ["{}", "token {}.", '"{}"', "a={}&b", "\\n{}\\r", "%3A{}", "\\u003a{}", "x:{},y", "({})"]
)
def test_token_is_known_by_its_shape(token: str, around: str) -> None:
    text = around.format(token)
    assert looks_like_secret(text)
    assert redacted(text).rstrip(".,") == around.format("***").rstrip(".,")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("{'Authorization': 'Bearer abc', 'x': 1}", "{'Authorization': '***', 'x': 1}"),
        ("{b'authorization': b'token a b', 'x': 1}", "{b'authorization': b'***', 'x': 1}"),
        ('{"PRIVATE-TOKEN":"abc","x":1}', '{"PRIVATE-TOKEN":"***","x":1}'),
        (r'"{\"Set-Cookie\": \"a=b; c\", \"x\": 1}"', r'"{\"Set-Cookie\": \"***\", \"x\": 1}"'),
        ('{"Cookie": "a=\\"b\\"; c=d", "x": 1}', '{"Cookie": "***", "x": 1}'),
        ("[('Cookie', 'a=b'), ('X-Api-Key', 'q')]", "[('Cookie', '***'), ('X-Api-Key', '***')]"),
        (
            "GET / HTTP/1.1\r\nProxy-Authorization: Basic a b\r\nHost: x",
            "GET / HTTP/1.1\r\nProxy-Authorization: ***\r\nHost: x",
        ),
        (r"b'GET /\r\nX-API-Key: q\r\nHost: x'", r"b'GET /\r\nX-API-Key: ***\r\nHost: x'"),
        ("?private_token=abc&page=2", "?private_token=***&page=2"),
        ("Authorization=Bearer abc x", "Authorization=*** x"),
        ("sent Bearer abcdef012345, got 401", "sent Bearer ***, got 401"),
        ("Basic dXNlcjpwYXNz", "Basic ***"),
        ("https://me:pw@x.example/a redis://:p%40w@h:1/0", "https://***@x.example/a redis://***@h:1/0"),
        ("https://token@x.example/", "https://***@x.example/"),
        (f"key:\n{PEM}rest", "key:\n***\nrest"),
        (PEM[:60], "***"),
    ],
)
def test_headers_schemes_addresses_and_keys_are_redacted(text: str, clean: str) -> None:
    assert redacted(text) == clean
    assert redacted(clean) == clean


def test_text_is_cut_after_it_was_redacted() -> None:
    text = "x" * 1989 + " " + TOKENS[0]
    assert sanitized(text) == "x" * 1989 + " ***"
    assert sanitized("ab" * 10, 3) == "aba"


WORDS = [
    "basic authentication of a bearer certificate", "weight_of_the_longest_path_in_the_graph",
    "the token has ended or was withdrawn",
    "authorise the credential at https://github.com/orgs/acme/sso?authorization_request=AB12", "ssh://git@github.com/acme/api",
    "cookies and cream", "batch.deferred", "2026-11-30T04:48:40Z", "run/6f2c0c5e-6c0b-5d0e-9f0d-3a4a1f7b9c11/dispatch/1",
    "Y3Vyc29yOnYyOpK5MjAyNi0xMS0zMFQwNDo0ODo0MFo=", "eyJwYWdlIjoyfQ==", "MDEwOlJlcG9zaXRvcnkx",
    "give it a new secret with `dev-hops x`",
]  # fmt: skip


@pytest.mark.parametrize("text", WORDS)
def test_ordinary_words_stay_as_they_are(text: str) -> None:
    held = Secret(HELD)
    assert redacted(text) == text
    assert not looks_like_secret(text)
    del held


@given(st.integers(0, 2**160 - 1), st.text(string.ascii_letters + string.digits + " .,;()[]'\"=/_", max_size=80))
def test_ids_shas_cursors_and_texts_stay_as_they_are(number: int, words: str) -> None:
    sha = sha256(str(number).encode()).hexdigest()
    cursor = base64.b64encode(f"cursor:v2:{number}".encode()).decode()
    for text in (sha, sha[:40], str(uuid4()), cursor, f"acme/api@{sha[:7]}", f"{number}: {cursor}, {sha}"):
        assert redacted(text) == text
    plain = re.sub("(?i)basic|bearer|authorization|token|cookie|key|gh|gl|lin|atatt|eyj", "", words)
    assert redacted(plain) == plain


def test_tree_keeps_its_form_and_what_holds_nothing() -> None:
    number, when = uuid4(), object()
    tree = {"a": [TOKENS[0], 1, None, (True, 2.5)], TOKENS[0]: {"b": b"x"}, "id": number, "o": when}
    assert redacted_tree(tree) == {"a": ["***", 1, None, (True, 2.5)], "***": {"b": b"x"}, "id": number, "o": when}
    assert redacted_tree([ValueError(TOKENS[0]), TOKENS[0].encode()]) == ["ValueError('***')", "b'***'"]


def test_tree_that_holds_itself_ends() -> None:
    ring: list[object] = [TOKENS[0]]
    ring.append(ring)
    assert TOKENS[0] not in repr(redacted_tree(ring))


def test_forms_of_a_secret_are_not_shown() -> None:
    held = Secret(HELD)
    redacted("anything")
    assert HELD not in repr(sanitiser._forms_of(held))


def test_only_signers_and_the_vault_reveal() -> None:
    calls = re.compile(r"""\.reveal\b|['"]reveal['"]""")
    found = {
        str(path.relative_to(TOP))
        for path in TOP.rglob("*.py")
        if calls.search(path.read_text()) and path.name != "secret.py"
    }
    assert "vault.py" in found
    assert {name for name in found if not name.startswith("providers/")} == {"vault.py"}


def test_first_line_of_a_living_key_does_not_keep_another_key_from_being_found() -> None:
    living, first_line = Secret(PEM.replace("canary", "living")), Secret(PEM.splitlines()[0])
    assert redacted(f"key:\n{PEM}rest") == "key:\n***\nrest"
    assert redacted(PEM[:60]) == "***"
    assert living != first_line


def test_placeholder_of_a_remedy_stays_readable() -> None:
    remedy = "give postgresql://USER:PASSWORD@HOST:5432/NAME"
    assert redacted(remedy) == remedy
    assert redacted("postgresql://USER:PASSWORDS@HOST/NAME") == "postgresql://***@HOST/NAME"
