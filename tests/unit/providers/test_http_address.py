import pytest

from worker_app.providers import http_address

GITHUB = "https://api.github.com"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://API.github.com:443/x", "api.github.com"),
        ("https://ghe.acme.com:8443", "ghe.acme.com:8443"),
        ("http://[::1]:80/", "[::1]"),
    ],
)
def test_an_origin_is_shown_as_people_write_it(url: str, shown: str) -> None:
    assert str(http_address.origin(url)) == shown


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/repos",
        "https://",
        "ftp://github.com",
        "javascript:alert(1)",
        "https://user@github.com",
        "https://:secret@github.com",
        "https://git hub.com",
        "https://github.com:99999",
        "https://github.com:x",
        "https://[::1",
        "https://gïthub.com",
    ],
)
def test_what_is_no_address_of_a_web_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        http_address.origin(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    ["http://api.github.com", "http://127.0.0.1.example.com", "http://10.0.0.1", "https://x/?a=1", "https://x/#a", "x"],
)
def test_a_base_is_https_or_on_loopback(url: str) -> None:
    with pytest.raises(ValueError, match="base URL"):
        http_address.Base(url)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080", "http://127.9.9.9", "http://[::1]:8080/api", "http://localhost:1"]
)
def test_a_base_on_loopback_may_be_http(url: str) -> None:
    assert http_address.Base(url).origin.is_loopback


@pytest.mark.parametrize(
    ("base", "url", "params", "whole"),
    [
        (GITHUB, "/repos/a/b", {}, f"{GITHUB}/repos/a/b"),
        (f"{GITHUB}/", "repos/a/b", {"state": "all"}, f"{GITHUB}/repos/a/b?state=all"),
        ("https://ghe.acme.com/api/v3", "/user", {}, "https://ghe.acme.com/api/v3/user"),
        ("https://ghe.acme.com/api/v3", "https://ghe.acme.com/api/graphql", {}, "https://ghe.acme.com/api/graphql"),
        (GITHUB, f"{GITHUB}/r?page=2&x=%2F", {}, f"{GITHUB}/r?page=2&x=%2F"),
        (GITHUB, "/r?a=1#f", {"b": "ü &"}, f"{GITHUB}/r?a=1&b=%C3%BC+%26"),
        (GITHUB, "//example.com/x", {}, f"{GITHUB}/example.com/x"),
        (GITHUB, "/compare/a:b...c", {}, f"{GITHUB}/compare/a:b...c"),
    ],
)
def test_a_url_is_taken_below_the_base(base: str, url: str, params: dict[str, str], whole: str) -> None:
    assert http_address.Base(base).absolute(url, params) == whole


@pytest.mark.parametrize("url", ["https://example.com/", "http://api.github.com/", "https://api.github.com:444/"])
def test_another_origin_is_refused(url: str) -> None:
    base = http_address.Base(GITHUB)
    assert not base.is_own(url)
    with pytest.raises(ValueError, match="asks no other"):
        base.absolute(url, {})


@pytest.mark.parametrize(
    ("base", "url", "may"),
    [
        (GITHUB, "https://example.com/x", True),
        (GITHUB, "http://api.github.com/x", False),
        (GITHUB, "http://127.0.0.1/x", False),
        ("http://127.0.0.1:1", "http://localhost:2/x", True),
        ("http://127.0.0.1:1", "http://example.com/x", False),
        ("http://127.0.0.1:1", "https://example.com/x", True),
    ],
)
def test_a_reply_may_lead_to_what_is_encrypted_or_stays_on_this_machine(base: str, url: str, may: bool) -> None:
    assert http_address.Base(base).may_lead_to(url) is may


def test_a_message_holds_the_path_alone() -> None:
    assert http_address.path("https://u:p@example.com/a/b?sig=x#y") == "/a/b"
    assert http_address.path("https://example.com") == "/"
    assert http_address.path("https://example.com/a\x85b/%C3%BCé") == "/a%C2%85b/%C3%BC%C3%A9"
    assert len(http_address.path("https://example.com/" + "a" * 1000)) == 200
