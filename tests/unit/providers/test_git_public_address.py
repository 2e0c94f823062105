import pytest

from worker_app import errors
from worker_app.providers import git


@pytest.mark.parametrize(
    "name",
    ["https://ada:canary@example.org/a/b.git", "https://canary@example.org/a/b", "https://canary:@example.org/a/b"],
)
def test_address_with_a_user_or_a_password_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(errors.UsageError) as caught:
        git.public_address(name)
    assert "canary" not in str(caught.value)
    assert "https://example.org/a/b" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["https://example.org/a/b.git", "git@example.org:a/b.git", "ssh://git@example.org:2222/a/b"]
)
def test_address_without_a_secret_is_kept_as_it_was_given(name: str) -> None:
    assert git.public_address(name) == name


def test_path_becomes_absolute() -> None:
    assert git.public_address("./x").startswith("/")


def test_path_of_a_bare_repository_keeps_its_ending() -> None:
    assert git.public_address("/srv/app.git") == "/srv/app.git"
