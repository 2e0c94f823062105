"""Faults: what the fake does wrong when it is told to. Each one changes the answer that would have been given."""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from worker_app.demo import answers
from worker_app.demo.messages import Request, Response

Change = Callable[[Request, Response], Response]
SECONDARY = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. "
    "If you reach out to GitHub Support for help, please include the request ID."
)
PAGE = b"<!DOCTYPE html><html><body><h1>Whoa there!</h1></body></html>"


@dataclass(slots=True)
class Fault:
    """One change, and the requests that it hits."""

    change: Change
    path: str = ".*"  # pattern of the whole path
    times: int | None = 1  # requests that it hits; None: until it is lifted
    skip: int = 0  # requests that pass before
    when: Callable[[Request], bool] = lambda _: True

    def takes(self, request: Request) -> bool:
        """Whether it hits this request; counts it."""
        if self.times == 0 or not re.fullmatch(self.path, request.path) or not self.when(request):
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times = None if self.times is None else self.times - 1
        return True


class Faults:
    """The faults that are in force."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def add(self, change: Change, **where: Any) -> Fault:
        """Put a fault in force; `where` are the fields of `Fault`."""
        with self._lock:
            self._faults.append(Fault(change, **where))
            return self._faults[-1]

    def lift(self) -> None:
        """End all of them."""
        with self._lock:
            self._faults.clear()

    def apply(self, request: Request, response: Response) -> Response:
        """The response after every fault that hits the request."""
        with self._lock:
            hit = [fault for fault in self._faults if fault.takes(request)]
        for fault in hit:
            response = fault.change(request, response)
        return response


def _wrong(response: Response) -> Response:
    response.is_misbehaviour = True
    return response


def status(code: int, message: str = "Server Error", **headers: str) -> Change:
    """Answer with that status. Underscores in header names become hyphens."""
    return lambda _, __: _wrong(answers.refusal(code, message, **headers))


def document(content: Any, code: int = 200) -> Change:
    """Answer with that JSON."""
    return lambda _, __: _wrong(Response(code, content))


def html(code: int = 200) -> Change:
    """Answer with a page for people."""
    return lambda _, __: _wrong(Response(code, headers={"content-type": "text/html; charset=utf-8"}, body=PAGE))


def secondary(retry_after: str | None = None, code: int = 403) -> Change:
    """Refuse as a secondary limit; `retry_after` verbatim, None: without the header."""
    headers = {} if retry_after is None else {"retry_after": retry_after}
    return status(code, SECONDARY, **headers)


def primary(reset: str, code: int = 403) -> Change:
    """Refuse as a used-up quota whose reset is `reset`, verbatim."""
    return status(code, "API rate limit exceeded for user ID 1.", x_ratelimit_remaining="0", x_ratelimit_reset=reset)


def headers(**values: str | None) -> Change:
    """Set headers of the right answer, or leave those out that are None. Underscores become hyphens."""

    def change(_: Request, response: Response) -> Response:
        response.overrides.update({name.replace("_", "-"): value for name, value in values.items()})
        return response

    return change


def delivery(**how: Any) -> Change:
    """Send the right answer wrongly; `how` are the fields of `Delivery`."""

    def change(_: Request, response: Response) -> Response:
        response.delivery = replace(response.delivery, **how)
        return response

    return change


def slow(seconds: float) -> Change:
    """Think for that long before the answer."""
    return delivery(wait_seconds=seconds)


def cut(share: float = 0.5) -> Change:
    """Close the connection after that share of the body."""
    return delivery(cut_after=share)


def drip(seconds: float) -> Change:
    """Spread the body over that time."""
    return delivery(drip_seconds=seconds)


def above_page_size(most: int, code: int = 502) -> Change:
    """Fail where a GraphQL query asks for more than `most` items at once."""

    def change(request: Request, response: Response) -> Response:
        variables = (request.document or {}).get("variables") or {}
        sizes = [int(size) for size in re.findall(r"first:\s*(\d+)", (request.document or {}).get("query", ""))]
        sizes += [
            value for name, value in variables.items() if isinstance(value, int) and name.lower().startswith("first")
        ]
        return status(code, "Server Error")(request, response) if max(sizes, default=0) > most else response

    return change


def something_went_wrong() -> Change:
    """GraphQL's word for a query that took too long: status 200 and no data."""
    message = "Something went wrong while executing your query. Please include `0000:0000` when reporting this issue."
    return document({"data": None, "errors": [{"message": message}]})


def graphql_limited() -> Change:
    """GraphQL's used-up quota: status 200 and `RATE_LIMITED`."""
    refused = {"type": "RATE_LIMITED", "message": "API rate limit exceeded for user ID 1."}
    return document({"errors": [refused]})
