import pytest

from worker_app import errors
from worker_app.providers.github_page_size import PageSize, shrinking


def failing(status: int | None) -> errors.ProviderFault:
    return errors.ProviderFault("too much", status=status)


def test_size_starts_small_and_doubles_to_the_most() -> None:
    size, seen = PageSize(), []
    for _ in range(4):
        seen.append(size.items)
        size.grow()

    assert seen == [25, 50, 100, 100]


@pytest.mark.parametrize(("most", "first"), [(2, 2), (25, 25), (1000, 25)])
def test_size_never_passes_the_most(most: int, first: int) -> None:
    size = PageSize(most)
    assert size.items == first
    for _ in range(10):
        size.grow()

    assert size.items == min(most, 100)


def test_f17_size_halves_down_to_one_and_never_to_nothing() -> None:
    size, seen = PageSize(), []
    while size.shrink():
        seen.append(size.items)

    assert seen == [12, 6, 3, 1]
    assert size.items == 1


@pytest.mark.parametrize("status", [502, 503, 504, 200, None])
def test_f17_page_shrinks_until_it_can_be_done(status: int | None) -> None:
    asked: list[int] = []

    def ask(items: int) -> int:
        asked.append(items)
        if items > 3:
            raise failing(status)
        return items

    assert shrinking(PageSize(), ask) == 3
    assert asked == [25, 12, 6, 3]


def test_f17_page_grows_back_the_slower_the_oftener_it_failed() -> None:
    size, asked = PageSize(), []

    def ask(items: int) -> None:
        asked.append(items)
        if items > 25:
            raise failing(502)

    for _ in range(8):
        shrinking(size, ask)

    assert asked == [25, 50, 25, 25, 50, 25, 25, 25, 25, 50, 25]


def test_page_of_one_item_that_fails_is_a_fault() -> None:
    def ask(items: int) -> None:
        raise failing(502)

    with pytest.raises(errors.ProviderFault):
        shrinking(PageSize(), ask)


@pytest.mark.parametrize("status", [500, 429])
def test_fault_that_is_not_about_the_size_is_handed_on(status: int) -> None:
    asked: list[int] = []

    def ask(items: int) -> None:
        asked.append(items)
        raise failing(status)

    with pytest.raises(errors.ProviderFault):
        shrinking(PageSize(), ask)
    assert asked == [25]
