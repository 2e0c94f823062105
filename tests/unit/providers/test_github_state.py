from typing import Any

import pytest

from tests.github_answers import answer
from worker_app import errors
from worker_app.providers import github_state

SSO = "required; url=https://github.com/orgs/acme/sso?authorization_request=AAAA"
TOKEN = "ghp_" + "a" * 36


def said(message: str) -> dict[str, str]:
    return {"message": message, "documentation_url": "https://docs.github.com/rest"}


@pytest.mark.parametrize("status", [200, 201, 204])
def test_success_is_no_fault(status: int) -> None:
    assert github_state.source_fault(answer(status), "acme/api") is None
    assert github_state.dataset_fault(answer(status), "acme/api", "commits") is None


@pytest.mark.parametrize(
    ("status", "message", "headers", "state"),
    [
        (404, "Not Found", {}, "inaccessible"),
        (403, "Resource not accessible by integration", {}, "inaccessible"),
        (403, "Repository access blocked", {}, "inaccessible"),
        (451, "Repository access blocked", {}, "inaccessible"),
        (410, "Gone", {}, "gone"),
        (403, "Resource protected by organization SAML enforcement.", {"X_GitHub_SSO": SSO}, "sso_required"),
        (404, "Not Found", {"x_github_sso": SSO}, "sso_required"),
    ],
)
def test_refused_repository_has_a_state(status: int, message: str, headers: dict[str, str], state: str) -> None:
    fault = github_state.source_fault(answer(status, said(message), **headers), "acme/api")

    assert isinstance(fault, errors.SourceUnavailable)
    assert fault.state == state
    assert "acme/api" in str(fault)


@pytest.mark.parametrize(
    ("dataset", "status", "message", "expected"),
    [
        ("work_items", 410, "Issues are disabled for this repo", errors.DatasetDisabled),
        ("work_items", 404, "Issues has been disabled in this repository.", errors.DatasetDisabled),
        ("pipeline_runs", 403, "GitHub Actions is disabled on this repository", errors.DatasetDisabled),
        ("pipeline_runs", 404, "Not Found", errors.DatasetDisabled),
        ("pipeline_runs", 403, "Resource not accessible by personal access token", errors.ProviderRefused),
        ("deployments", 404, "Not Found", errors.ProviderRefused),
        ("work_items", 403, "Must have admin rights", errors.ProviderRefused),
        ("commits", 409, "Conflict", errors.ProviderRefused),
        ("commits", 422, "Validation Failed", errors.ProviderRefused),
        ("commits", 400, "Bad Request", errors.ProviderRefused),
    ],
)
def test_refused_dataset_is_told_apart(dataset: str, status: int, message: str, expected: type[Exception]) -> None:
    assert type(github_state.dataset_fault(answer(status, said(message)), "acme/api", dataset)) is expected


@pytest.mark.parametrize(
    ("status", "message", "is_empty"),
    [
        (409, "Git Repository is empty.", True),
        (409, "Conflict", False),
        (404, "Git Repository is empty.", False),
        (200, "", False),
    ],
)
def test_f22_only_one_409_means_empty(status: int, message: str, is_empty: bool) -> None:
    assert github_state.is_empty_repository(answer(status, said(message))) is is_empty


def test_f24_link_for_single_sign_on_is_shown() -> None:
    fault = github_state.source_fault(answer(403, said("SAML"), X_GitHub_SSO=SSO), "acme/api")

    assert "https://github.com/orgs/acme/sso?authorization_request=AAAA" in str(fault)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("partial-results; organizations=21955855,20582480", "organizations by id: 21955855,20582480"),
        ("partial-results", "not named"),
        (SSO, None),
        ("", None),
    ],
)
def test_list_with_parts_left_out_says_so(header: str, reason: str | None) -> None:
    told = github_state.withheld(answer(200, [], X_GitHub_SSO=header))

    assert told is None if reason is None else reason.replace("organizations", "organisations") in (told or "")


def test_evidence_is_short_and_holds_no_secret() -> None:
    echoed = said(f"Bad token {TOKEN}, Bearer abcdefghij " + "x" * 1000)
    found = github_state.evidence(answer(403, echoed, Date="Mon, 01 Jun 2026 12:00:00 GMT", Authorization=TOKEN))

    assert found["status"] == 403
    assert found["headers"] == {"Date": "Mon, 01 Jun 2026 12:00:00 GMT"}
    assert len(str(found["body"])) == 500
    assert TOKEN not in str(found)
    assert "abcdefghij" not in str(found)


@pytest.mark.parametrize("document", [None, [], "text", 7, {"message": None}, {"message": 3}])
def test_message_of_any_document_is_text(document: Any) -> None:
    assert github_state.message(answer(418, document)) == "status 418"


@pytest.mark.parametrize(
    ("said_by_github", "shown"),
    [
        ("Bad token ghp_demo!", "Bad token ***!"),
        ("github_pat_11AAAA_bbbb is over", "*** is over"),
        ("ghs_1234_eyJhbGciOi.abc.def-g is over", "*** is over"),
        ("eyJhbGciOi.eyJpc3Mi.c2ln is no JWT", "*** is no JWT"),
        ("Authorization: Bearer abcdefgh", "Authorization: ***"),
        ("token 0123456789abcdef0123456789abcdef01234567", "***"),
        ("grant your OAuth token access to this", "grant your OAuth token access to this"),
        ("a\u0000b\nc", "a b c"),
    ],
)
def test_words_of_github_are_shown_without_secrets_on_one_line(said_by_github: str, shown: str) -> None:
    assert github_state.plain(said_by_github) == shown
