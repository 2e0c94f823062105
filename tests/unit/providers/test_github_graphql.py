from typing import Any

import pytest

from tests.github_answers import answer
from worker_app import errors
from worker_app.providers import github_graphql

SAML = {
    "type": "FORBIDDEN",
    "message": "Resource protected by organization SAML enforcement.",
    "extensions": {"saml_failure": True},
}
WRONG = {"message": "Something went wrong while executing your query. Please include `0000`."}
MISSING = {"type": "NOT_FOUND", "message": "Could not resolve to a Repository with the name 'acme/api'."}


def judge(**document: Any) -> github_graphql.Found:
    return github_graphql.judge(answer(200, document), "acme/api")


def test_reply_without_errors_is_whole() -> None:
    assert judge(data={"repository": {"id": "R_1"}}) == ({"repository": {"id": "R_1"}}, ())


def test_data_beside_an_error_lacks_something() -> None:
    found = judge(data={"repository": {"pullRequests": None}}, errors=[{"type": "FORBIDDEN", "message": "No"}])

    assert found.data == {"repository": {"pullRequests": None}}
    assert found.reasons == ("GitHub left something out of acme/api: FORBIDDEN: No",)


@pytest.mark.parametrize(
    "fault",
    [
        WRONG,
        {"message": "Timeout on validation of query"},
        {"type": "RESOURCE_LIMITS_EXCEEDED", "message": "Resource limits for this query exceeded."},
        {"type": "MAX_NODE_LIMIT_EXCEEDED", "message": "This query requests up to 505,050 possible nodes"},
        {"type": "SERVICE_UNAVAILABLE", "message": "Try later"},
    ],
)
@pytest.mark.parametrize("data", [None, {"repository": {"id": "R_1"}}])
def test_f17_query_that_was_too_much_is_a_fault_even_with_data(fault: dict[str, Any], data: Any) -> None:
    with pytest.raises(errors.ProviderFault) as raised:
        judge(data=data, errors=[fault])

    assert raised.value.status == 200


@pytest.mark.parametrize("data", [None, {"repository": None}, {"nodes": [None, None]}])
def test_f24_null_nodes_under_single_sign_on_are_a_state(data: Any) -> None:
    with pytest.raises(errors.SourceUnavailable) as raised:
        judge(data=data, errors=[SAML])

    assert raised.value.state == "sso_required"


@pytest.mark.parametrize("data", [None, {}, {"repository": None}])
def test_repository_that_is_not_found_is_a_state(data: Any) -> None:
    with pytest.raises(errors.SourceUnavailable) as raised:
        judge(data=data, errors=[MISSING])

    assert raised.value.state == "inaccessible"
    assert raised.value.evidence is not None


def test_one_thing_that_is_gone_says_nothing_about_its_repository() -> None:
    missing = {"type": "NOT_FOUND", "message": "Could not resolve to a node with the global id of 'I_1'."}

    assert judge(data={"nodes": [None]}, errors=[missing]).data == {"nodes": [None]}
    assert judge(data={"node": None}, errors=[missing]).reasons


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "text",
        {},
        {"data": []},
        {"data": {"repository": None}},
        {"errors": [{"message": "Field 'x' doesn't exist on type 'Y'"}]},
        {"errors": [7]},
    ],
)
def test_reply_that_is_none_fails_its_batch(document: Any) -> None:
    with pytest.raises(errors.ProviderFault):
        github_graphql.judge(answer(200, document), "acme/api")


def test_errors_hold_no_secret() -> None:
    token = "ghp_" + "a" * 36

    found = judge(data={"repository": {"id": 1}}, errors=[{"message": f"token {token}"}])

    assert token not in found.reasons[0]
