from datetime import UTC, datetime
from typing import Any

import pytest
from requests.structures import CaseInsensitiveDict

from worker_app import errors
from worker_app.providers import identity
from worker_app.providers.client import Answer
from worker_app.secret import Secret


def answer(status: int, document: Any) -> Answer:
    return Answer(status, CaseInsensitiveDict(), b"", document, "https://api.acme.com/user", None, None)


def test_name_is_one_short_line() -> None:
    assert identity.name(" Ada\n\x1b[31m Lovelace\0 (ada@acme.example) ") == "Ada [31m Lovelace (ada@acme.example)"
    assert len(identity.name("é " * 500) or "") == identity.MOST_NAME
    assert [identity.name(said) for said in (None, 7, b"ada", "", " \n")] == [None] * 5


def test_name_holds_no_secret_that_the_provider_echoes() -> None:
    held, foreign = Secret("canary8f3"), "q" * 40
    said = identity.name(f"Ada {held.reveal()} {foreign} ghp_{'0' * 36} Lovelace") or ""
    assert said.startswith("Ada ")
    assert said.endswith(" Lovelace")
    assert not any(part in said for part in ("canary8f3", "qqqq", "0000"))


def test_scopes_are_words_in_order() -> None:
    assert identity.scopes(["repo", "read:org", "repo", "", "ghp_" + "0" * 36, 7, "a b"]) == ("read:org", "repo")
    assert identity.scopes("repo") == identity.scopes(None) == ()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("2026-12-31", datetime(2026, 12, 31, tzinfo=UTC)),
        ("2026-12-31 10:20:30 UTC", datetime(2026, 12, 31, 10, 20, 30, tzinfo=UTC)),
        ("2026-12-31 10:20:30 +0200", datetime(2026, 12, 31, 8, 20, 30, tzinfo=UTC)),
        ("2026-12-31T10:20:30Z", datetime(2026, 12, 31, 10, 20, 30, tzinfo=UTC)),
        ("never", None),
        (None, None),
        (7, None),
    ],
)
def test_moment_is_read_as_providers_write_it(said: object, expected: datetime | None) -> None:
    assert identity.moment(said) == expected


def test_document_is_that_of_a_success() -> None:
    assert identity.document(answer(200, {"a": 1}), "Acme at acme.com", {}) == {"a": 1}


def test_other_answers_are_refusals_with_the_remedy_and_none_of_their_words() -> None:
    said = answer(403, {"message": "canary8f3a"})
    with pytest.raises(errors.ProviderRefused, match=r"Acme at acme.com .* \(403\): knock first") as caught:
        identity.document(said, "Acme at acme.com", {403: "knock first"})
    assert "canary8f3a" not in str(caught.value)
    with pytest.raises(errors.ProviderRefused, match="check the host of the credential"):
        identity.document(answer(404, None), "Acme at acme.com", {403: "knock first"})
    with pytest.raises(errors.ProviderFault, match="what says nothing of a credential"):
        identity.document(answer(200, [1]), "Acme at acme.com", {})
