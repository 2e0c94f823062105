import pytest

from worker_app import api_urls


def fault_of(text: str) -> str:
    with pytest.raises(ValueError, match="it is `host=url,host=url`: ") as caught:
        api_urls.parse(text)
    return str(caught.value).partition(": ")[2]


def test_hosts_and_urls_are_read_without_what_stands_around_them() -> None:
    assert api_urls.parse(" GHE.acme.com = https://api.acme.com/v3/ ,github.localhost=http://127.0.0.1:8080,") == (
        ("ghe.acme.com", "https://api.acme.com/v3"),
        ("github.localhost", "http://127.0.0.1:8080"),
    )


@pytest.mark.parametrize("url", ["http://localhost:1", "http://127.8.0.1", "http://[::1]:80/api"])
def test_plain_http_is_taken_on_this_machine(url: str) -> None:
    assert api_urls.parse(f"h={url}") == (("h", url),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("github.com", "an entry has no host before its = or no URL behind it"),
        ("=https://x.example", "an entry has no host"),
        ("https://x.example=h", "an entry has no host"),
        ("h=x.example", "an entry has no host"),
        ("h=https://[::1", "an entry has no host"),
        ("h=https://x.example:port", "an entry has no host"),
        ("h=http://x.example", "h has a URL that is neither https nor http on this machine"),
        ("h=http://127.0.0.1.x.example", "h has a URL that is neither"),
        ("h=http://localhost.x.example", "h has a URL that is neither"),
        ("h=ftp://localhost", "h has a URL that is neither"),
        ("h=https://me:secret@x.example", "h has a URL with a user"),
        ("h=https://x.example?a=b", "h has a URL with a user, a query or a fragment"),
        ("h=https://a.example,H=https://b.example", "h is there 2 times"),
    ],
)
def test_entry_that_is_wrong_is_refused(text: str, words: str) -> None:
    assert words in fault_of(text)
    assert "secret" not in fault_of(text)


def test_every_fault_comes_out_in_one_line() -> None:
    assert fault_of("a=http://x.example,b=https://u@x.example") == (
        "a has a URL that is neither https nor http on this machine; b has a URL with a user, a query or a fragment"
    )
