from collections.abc import Callable

import pytest

from worker_app import errors
from worker_app.credentials import given
from worker_app.secret import Secret

CANARY = "ghp_canary8f3a"


def refusal(made: Callable[[], object], secret: str = CANARY) -> str:
    with pytest.raises(errors.UsageError) as caught:
        made()
    assert secret not in str(caught.value)
    assert caught.value.__context__ is None
    return str(caught.value)


def test_token_loses_the_white_space_around_it() -> None:
    assert given.token_of(f" {CANARY}\r\n", "github") == Secret(CANARY)


@pytest.mark.parametrize("text", ["", " \n"])
def test_empty_secret_is_refused(text: str) -> None:
    assert "the secret is empty" in refusal(lambda: given.token_of(text, "github"))
    assert "the secret is empty" in refusal(lambda: given.password_of(text.strip()))


@pytest.mark.parametrize("between", [" ", "\n", "\0", "\x7f", "\u200b", "\ufeff", "\ufffd"])
def test_token_that_no_header_can_hold_is_refused_and_not_echoed(between: str) -> None:
    words = refusal(lambda: given.token_of(f"canary8{between}canary9", "github"), "canary8")
    assert "the token holds a space, a quote, a line break" in words


@pytest.mark.parametrize("count", [1, given.LEAST_SECRET - 1, given.MOST_SECRET + 1])
def test_secret_of_a_length_that_none_has_is_refused(count: int) -> None:
    secret = "q" * count
    made: list[Callable[[], object]] = [
        lambda: given.token_of(secret, "gitlab"), lambda: given.password_of(secret), lambda: given.token_of(secret, "linear")
    ]  # fmt: skip
    for attempt in made:
        assert f"has {count} characters" in refusal(attempt, secret if count > 1 else CANARY)


@pytest.mark.parametrize(
    ("secret", "issuer"),
    [
        ("ghp_0123456789abcdef", "github"),
        ("github_pat_0123456789", "github"),
        ("glpat-0123456789abcdef", "gitlab"),
        ("ATATT3xFfGF00123456789", "jira"),
        ("lin_api_0123456789abcd", "linear"),
    ],
)
def test_token_of_another_provider_is_refused_by_its_shape(secret: str, issuer: str) -> None:
    assert given.token_of(secret, issuer) == Secret(secret)
    for provider in {"github", "gitlab", "jira", "linear"} - {issuer}:
        words = refusal(lambda provider=provider: given.token_of(secret, provider), secret)  # type: ignore[misc]
        assert f"the token begins as those of {issuer} do, and --provider is {provider}" in words


def test_token_of_no_known_shape_is_taken_as_it_is() -> None:
    assert given.token_of("acme-prefix-0123456789", "gitlab") == Secret("acme-prefix-0123456789")


def test_linear_takes_no_token_of_oauth() -> None:
    assert given.token_of("lin_api_0123456789\n", "linear") == Secret("lin_api_0123456789")
    assert "a personal API key in Linear" in refusal(
        lambda: given.token_of("lin_oauth_canary8f3a", "linear"), "canary8f3a"
    )


def test_password_keeps_its_spaces_and_letters_of_any_language() -> None:
    assert given.password_of("pass wörd of git\n") == Secret("pass wörd of git")
    for text in (" canary8f3a", "canary8f3a ", "canary8f3a\tcanary", "canary8f3a\ncanary", "canary8f3a\0"):
        assert "the password holds a line break" in refusal(lambda text=text: given.password_of(text), "canary8f3a")  # type: ignore[misc]


def test_email_is_one_address() -> None:
    assert given.email_of("ada.l+jira@acme.example") == "ada.l+jira@acme.example"
    for text in (
        "ada",
        "ada@",
        "ada@acme",
        "a@b.c d",
        "Ada <ada@acme.com>",
        "a:b@acme.com",
        "a@b@c.d",
        "ä@acme.com",
        "",
    ):
        assert "--email is" in refusal(lambda text=text: given.email_of(text))  # type: ignore[misc]


def test_user_has_no_colon_and_no_space() -> None:
    assert given.user_of("gitlab+deploy-token-1") == "gitlab+deploy-token-1"
    for text in ("", "a:b", "a b", "a\n", "é", "u" * 255):
        assert "--user is" in refusal(lambda text=text: given.user_of(text))  # type: ignore[misc]


def test_host_is_written_as_a_person_sees_it() -> None:
    assert [given.host_of(text) for text in (" GitHub.com ", "ghe.acme.com:8443", "github.localhost")] == [
        "github.com", "ghe.acme.com:8443", "github.localhost",
    ]  # fmt: skip
    for text in ("", "https://github.com", "github.com/acme", "me@github.com", "git hub", "github.com.", "-x"):
        assert "without scheme, path, user and final dot" in refusal(lambda text=text: given.host_of(text))  # type: ignore[misc]
    assert "write the one that people see, linear.app" in refusal(lambda: given.host_of("API.linear.app"))


@pytest.mark.parametrize("pasted", ['"ghp_canary8f3a0123"', "'ghp_canary8f3a0123'", "TOKEN=ghp_canary8f3a0123"])
def test_token_that_was_copied_with_what_is_around_it_is_refused(pasted: str) -> None:
    assert "copy it again, alone" in refusal(lambda: given.token_of(pasted, "github"), "canary8f3a")


@pytest.mark.parametrize(
    ("token", "provider"), [("ghs_canary8f3a", "github"), ("ghr_canary8f3a", "github"), ("glrt-canary8f3a", "gitlab")]
)
def test_token_that_ends_by_itself_or_reads_nothing_is_refused(token: str, provider: str) -> None:
    assert "make a personal access token" in refusal(lambda: given.token_of(token, provider), "canary8f3a")


@pytest.mark.parametrize(
    "host", ["ghe.acme.com:99999", "ghe.acme.com:0", "a..b", "-a.com", "a-.com", f"{64 * 'a'}.com"]
)
def test_host_that_cannot_be_is_refused(host: str) -> None:
    with pytest.raises(errors.UsageError, match="host is"):
        given.host_of(host)
