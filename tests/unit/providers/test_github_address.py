import pytest

from worker_app import errors
from worker_app.providers import github_address
from worker_app.providers.github_address import Api, Place


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("acme/api", Place("github.com", "acme", "api")),
        ("github.com/acme/api", Place("github.com", "acme", "api")),
        ("https://github.com/acme/api", Place("github.com", "acme", "api")),
        ("https://GitHub.com/Acme/API.git", Place("github.com", "Acme", "API")),
        ("https://github.com/acme/api/", Place("github.com", "acme", "api")),
        ("git@github.com:acme/api.git", Place("github.com", "acme", "api")),
        ("ssh://git@github.com/acme/api.git", Place("github.com", "acme", "api")),
        ("ghe.acme.com/acme/api", Place("ghe.acme.com", "acme", "api")),
        ("https://ghe.acme.com:8443/acme/api", Place("ghe.acme.com:8443", "acme", "api")),
        ("https://ghe.acme.com:443/acme/api", Place("ghe.acme.com", "acme", "api")),
        ("git@ghe.acme.com:acme/api.git", Place("ghe.acme.com", "acme", "api")),
        ("acme/.github", Place("github.com", "acme", ".github")),
        ("acme/api.v2", Place("github.com", "acme", "api.v2")),
        ("acme", Place("github.com", "acme", None)),
        ("https://github.com/acme", Place("github.com", "acme", None)),
        ("ada_acme/notes", Place("github.com", "ada_acme", "notes")),
    ],
)
def test_name_of_a_repository_or_an_account_is_read(written: str, place: Place) -> None:
    assert github_address.place(written) == place


@pytest.mark.parametrize(
    "written",
    [
        "",
        "/",
        "acme/api/pulls",
        "http://github.com/acme/api",
        "ftp://github.com/acme/api",
        "https://github.com",
        "https://ada:secret@github.com/acme/api",
        "git@github.com/acme/api",
        "acme/..",
        "acme/a b",
        "acme/api?ref=secret",
        "-acme/api",
        "a\nb/api",
    ],
)
def test_what_names_nothing_is_refused(written: str) -> None:
    with pytest.raises(errors.UsageError) as refused:
        github_address.place(written)

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "api"),
    [
        ("github.com", Api("https://api.github.com", "https://api.github.com/graphql")),
        ("ghe.acme.com", Api("https://ghe.acme.com/api/v3", "https://ghe.acme.com/api/graphql")),
        ("acme.ghe.com", Api("https://api.acme.ghe.com", "https://api.acme.ghe.com/graphql")),
        ("github.localhost", Api("http://127.0.0.1:8080", "http://127.0.0.1:8080/graphql")),
        ("proxied.acme.com", Api("https://proxy.acme.com/api/v3", "https://proxy.acme.com/api/graphql")),
    ],
)
def test_api_of_a_host_is_found(host: str, api: Api) -> None:
    overrides = {"github.localhost": "http://127.0.0.1:8080/", "proxied.acme.com": "https://proxy.acme.com/api/v3"}

    assert github_address.api(host, overrides) == api


def test_port_that_cannot_be_is_refused() -> None:
    with pytest.raises(errors.UsageError, match="names no repository"):
        github_address.place("127.0.0.1:99999/acme/api")
