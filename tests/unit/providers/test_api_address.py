import pytest

from worker_app.providers import api_address


@pytest.mark.parametrize(
    ("provider", "host", "expected"),
    [
        ("github", "github.com", "https://api.github.com"),
        ("github", "ghe.acme.com", "https://ghe.acme.com/api/v3"),
        ("gitlab", "gitlab.com", "https://gitlab.com/api/v4"),
        ("gitlab", "gitlab.acme.com:8443", "https://gitlab.acme.com:8443/api/v4"),
        ("jira", "acme.atlassian.net", "https://acme.atlassian.net"),
        ("linear", "linear.app", "https://api.linear.app"),
    ],
)
def test_api_is_told_from_the_host_that_people_see(provider: str, host: str, expected: str) -> None:
    assert api_address.base_url(provider, host, {"other.acme.com": "https://elsewhere"}) == expected


@pytest.mark.parametrize("provider", ["github", "gitlab", "jira", "linear"])
def test_setting_goes_before_the_usual_address(provider: str) -> None:
    assert api_address.base_url(provider, "acme.com", {"acme.com": "https://acme.com/jira/"}) == "https://acme.com/jira"
