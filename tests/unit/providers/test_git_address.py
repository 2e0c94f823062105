from pathlib import Path

import pytest

from worker_app import errors
from worker_app.providers import git, git_address

GITHUB = ("github.com", "github.com/acme/app")


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("https://github.com/acme/app.git", GITHUB),
        ("https://github.com/acme/app", GITHUB),
        ("https://github.com/acme/app/", GITHUB),
        ("https://github.com/acme/app.git/", GITHUB),
        ("https://user:sesame@github.com/acme/app.git", GITHUB),
        ("https://user:ses@me@github.com/acme/app.git", GITHUB),
        ("https://ghp_token@GitHub.com:443/acme/app", GITHUB),
        ("git@github.com:acme/app.git", GITHUB),
        ("github.com:acme/app", GITHUB),
        ("git@GitHub.com:/acme/app.git", GITHUB),
        ("ssh://git@github.com:2222/acme/app.git", GITHUB),
        ("ssh://github.com/acme/app.git", GITHUB),
        ("https://git.example.org:8443/a/b/c.git", ("git.example.org:8443", "git.example.org:8443/a/b/c")),
        ("https://[2001:db8::1]/a/b", ("[2001:db8::1]", "[2001:db8::1]/a/b")),
        ("ssh://git@host/~ada/app.git", ("host", "host/~ada/app")),
        ("/srv/git/app.git", ("localhost", "/srv/git/app")),
        ("/srv/app/.git/", ("localhost", "/srv/app")),
        ("/srv/x/../app/", ("localhost", "/srv/app")),
        ("file:///srv/my%20app.git", ("localhost", "/srv/my app")),
        ("file://localhost/srv/app", ("localhost", "/srv/app")),
    ],
)
def test_identity_is_host_and_path_alone(name: str, right: tuple[str, str]) -> None:
    assert git.identity(name) == right


def test_identity_of_a_relative_path_is_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "link").symlink_to("app")
    monkeypatch.chdir(tmp_path)

    for name in ("app", "./app", "link", "../" + tmp_path.name + "/app"):
        assert git.identity(name) == ("localhost", str(tmp_path / "app"))
    assert git.identity(".") == ("localhost", str(tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "acme/app",
        "-u",
        "--upload-pack=touch x",
        "ext::sh -c x",
        "http://github.com/acme/app",
        "git://github.com/acme/app",
        "https://",
        "https://github.com",
        "https://github.com/.git",
        "https://github.com:port/acme/app",
        "https://-oProxyCommand=x/acme/app",
        "ssh://-oProxyCommand=x/acme/app",
        "ssh://-x@host/acme/app",
        "-x@host:acme/app",
        "git@-host:acme/app",
        "https://github.com/acme/app?token=sesame",
        "https://github.com/acme/app#sesame",
        "https://user:sesame@/acme/app",
        "user:sesame@github.com:acme/app",
        "https://user:ses/ame@github.com/acme/app",
        "https://user:12/ses/ame@github.com/acme/app",
        "file://elsewhere/srv/app",
        "https://github.com/acme/app\nx",
        "/srv/app\0",
        "[::1",
        "https://[::1/x",
    ],
)
def test_what_is_no_address_is_refused_with_field_and_remedy(name: str) -> None:
    with pytest.raises(errors.UsageError, match=r"^external_name ") as caught:
        git.identity(name)

    text = f"{caught.value!r} {caught.value.__cause__!r}"
    assert "sesame" not in text
    assert "ame@" not in text
    assert "'ses'" not in text
    assert any(word in text for word in ("write https://", "use https or ssh", "leave out"))


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("https://user:sesame@github.com/acme/app.git", "https://github.com/acme/app.git"),
        ("https://sesame@github.com:8443/acme/app.git", "https://github.com:8443/acme/app.git"),
        ("ssh://git:sesame@github.com:22/acme/app.git", "ssh://git@github.com:22/acme/app.git"),
        ("git@github.com:acme/app.git", "git@github.com:acme/app.git"),
        ("/srv/app.git", "/srv/app.git"),
    ],
)
def test_git_is_given_no_secret(name: str, url: str) -> None:
    address = git_address.parse(name)

    assert address.url == url
    assert "sesame" not in repr(address)


def test_full_name_is_what_a_person_says() -> None:
    names = {"git@github.com:acme/app.git": "acme/app", "https://host/a/b/c.git": "a/b/c", "/srv/app.git": "app"}

    assert {name: git_address.parse(name).full_name for name in names} == names
