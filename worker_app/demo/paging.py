"""Paging of REST lists: pages by number, and the `Link` header in GitHub's words and order.

https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import urlencode

from worker_app.demo.messages import Request

PER_PAGE = 30
PER_PAGE_MOST = 100

T = TypeVar("T")


class Slice(NamedTuple):
    """Which page is asked for."""

    page: int  # from 1
    per_page: int

    def of(self, items: Sequence[T]) -> Sequence[T]:
        """The items of this page."""
        start = (self.page - 1) * self.per_page
        return items[start : start + self.per_page]


def asked(request: Request) -> Slice:
    """The page that `request` asks for. What is no number counts as not given, and 100 is the most, as at GitHub."""
    per_page = _number(request.parameter("per_page"), PER_PAGE)
    return Slice(max(1, _number(request.parameter("page"), 1)), min(max(1, per_page), PER_PAGE_MOST))


def link(request: Request, path: str, total: int) -> dict[str, str]:
    """The `Link` header of a page of `total` items, none where one page holds them all. `path` stands after the base URL."""
    page, per_page = asked(request)
    last = max(1, -(-total // per_page))
    others = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
    if page <= 1:
        others = {name: others[name] for name in ("next", "last")}
    if page >= last:
        others = {name: number for name, number in others.items() if name in {"prev", "first"}}
    if last == 1 and page == 1:
        return {}
    kept = [(name, value) for name, value in request.query if name != "page"]
    return {
        "link": ", ".join(
            f'<{request.base_url}{path}?{urlencode([*kept, ("page", str(number))])}>; rel="{name}"'
            for name, number in others.items()
        )
    }


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else default
