"""Operations: what one method of one path asks for and answers, as values. `routes` lists them all; nothing is served here.

The same values make the Flask rule, check what a request brings, and become the OpenAPI document and the reference page.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

PLACE = re.compile(r"<(?:(?P<kind>[a-z]+):)?(?P<name>[a-z_]+)>")  # of a Flask rule
JSON, PROBLEM, HTML = "application/json", "application/problem+json", "text/html"


class Access(Enum):
    """Who may ask."""

    OPEN = "anybody"
    TOKEN = "the bearer of API_TOKEN; a browser that signed in may read"  # noqa: S105 - words
    AUTOSCALE = "the bearer of AUTOSCALE_TOKEN or of API_TOKEN"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a query."""

    name: str
    says: str
    kind: type[str] | type[int] = str
    default: str | int | None = None
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer that is no problem."""

    status: int
    says: str
    holds: Any = None  # the type that becomes its JSON; None: it has no JSON
    media: tuple[str, ...] = (JSON,)  # the first one by default; empty: no body
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    name: str  # operationId, and the endpoint in Flask
    method: str
    rule: str  # as Flask writes it
    group: str
    says: str
    answers: tuple[Answer, ...]
    problems: tuple[int, ...] = ()  # beside those that every operation of its sort may answer
    parameters: tuple[Parameter, ...] = ()
    body: Any = None  # the dataclass that its JSON becomes
    form: tuple[str, ...] = ()  # fields of a form, for a browser
    access: Access = Access.TOKEN
    is_keyed: bool = False  # takes Idempotency-Key

    @property
    def path(self) -> str:
        """The path as OpenAPI writes it."""
        return PLACE.sub(r"{\g<name>}", self.rule)

    @property
    def places(self) -> dict[str, str]:
        """The parameters of the path: name -> what Flask reads it as."""
        return {found["name"]: found["kind"] or "string" for found in PLACE.finditer(self.rule)}

    @property
    def problem_statuses(self) -> tuple[int, ...]:
        """The statuses of its problems, in order."""
        found = set(self.problems)
        if self.access is not Access.OPEN:
            found |= {400, 401, 503}  # an unknown parameter, no token, a store that is away
        if self.places:
            found.add(404)
        if self.body is not None:
            found |= {400, 413, 415}
        return tuple(sorted(found))
