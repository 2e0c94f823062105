import pytest

from worker_app.credentials.kinds import GitLabToken, JiraAccessToken, JiraToken, LinearKey
from worker_app.providers import header_signer
from worker_app.providers.header_signer import HeaderCredential
from worker_app.secret import Secret

CANARY = Secret("canary8f3a")
EVERY: list[tuple[HeaderCredential, dict[str, str]]] = [
    (GitLabToken("gitlab.com", CANARY), {"PRIVATE-TOKEN": "canary8f3a"}),
    (JiraToken("a.atlassian.net", "ada@acme.com", CANARY), {"Authorization": "Basic YWRhQGFjbWUuY29tOmNhbmFyeThmM2E="}),
    (JiraAccessToken("jira.acme.com", CANARY), {"Authorization": "Bearer canary8f3a"}),
    (LinearKey("linear.app", CANARY), {"Authorization": "canary8f3a"}),
]


@pytest.mark.parametrize(("credential", "expected"), EVERY)
def test_credential_signs_as_its_provider_has_it(credential: HeaderCredential, expected: dict[str, str]) -> None:
    signer = header_signer.signer(credential)
    assert signer.headers() == expected
    assert signer.renew() is False


def test_generation_tells_secrets_apart_and_holds_none() -> None:
    generations = {header_signer.signer(credential).generation for credential, _ in EVERY}
    assert (
        len(generations) == 3
    )  # a token of GitLab and a key of Linear are sent as they are, and here they are the same
    assert not any("canary" in generation for generation in generations)
    other = header_signer.signer(LinearKey("linear.app", Secret("canary8f3b"))).generation
    assert other not in generations
