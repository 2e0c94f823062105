import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker_app.embedded import account, place
from worker_app.embedded.account import Account
from worker_app.embedded.folder import EmbeddedStoreError


@pytest.fixture
def lent(need_root: None) -> Account:
    chosen = account.choose(None)
    assert chosen
    return chosen


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Path]:
    """Where the place is wanted: below tmp_path, which is closed to every account but root."""
    wanted = tmp_path / "postgres"
    yield wanted
    place.delete(wanted)


def test_place_outside_is_in_the_first_base_that_works(link: Path, lent: Account, open_folder: Path) -> None:
    made = place.make(link, lent, outside=(open_folder / "missing", link.parent, open_folder))
    assert made.parent == open_folder
    assert link.resolve() == made
    assert [path.name for path in link.parent.iterdir()] == ["postgres"]


def test_place_outside_names_what_it_tried_when_none_works(link: Path, lent: Account, tmp_path: Path) -> None:
    with pytest.raises(EmbeddedStoreError, match=str(tmp_path / "missing")):
        place.make(link, lent, outside=(tmp_path / "missing",))
    assert not link.is_symlink()


def test_place_lost_is_reported_and_made_anew(
    link: Path, lent: Account, open_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost = place.make(link, lent, outside=(open_folder,))
    shutil.rmtree(lost)
    assert place.find(link) is None
    assert place.make(link, lent, outside=(open_folder,)) != lost
    assert str(lost) in caplog.text


def test_place_of_an_ordinary_user_is_in_the_folder(link: Path) -> None:
    assert place.make(link, None) == link
    assert not link.is_symlink()


def test_account_is_the_wanted_one(need_root: None) -> None:
    chosen = account.choose("daemon")
    assert chosen
    assert chosen.name == "daemon"


@pytest.mark.parametrize("wanted", ["root", "nobody-has-this-name", None])
def test_account_is_never_root(need_root: None, wanted: str | None) -> None:
    chosen = account.choose(wanted)
    assert chosen
    assert chosen.name in {"postgres", "nobody"}
    assert chosen.uid != 0


def test_account_of_data_that_root_owns_is_refused(need_root: None, tmp_path: Path) -> None:
    with pytest.raises(EmbeddedStoreError, match="belongs to user root"):
        account.owner(tmp_path)
