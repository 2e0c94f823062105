"""Identity: who a credential is at its provider, and what it may see there. The answer of one call; holds no secret.

Each provider has a file `<provider>_identity.py` that asks and reads the answer into one of these. Nothing that a provider says
is passed on as it came: a server may echo the secret that it was asked with.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from worker_app import errors, secret
from worker_app.providers.client import Answer

MOST_NAME = 100  # characters of what a provider calls something
OK = 200
_SCOPE = re.compile(r"[a-z][a-z_]{0,39}(?::[a-z_]{1,20})?")  # no token is that short and in lower case alone
_LONG_WORD = re.compile(r"[^\s@().]{24,}")  # may be a token; part of a name or an address it is not


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a credential is, as its provider tells it."""

    account: str | None = (
        None  # name of the account, or of the App and where it is installed; None: the provider does not tell
    )
    scopes: tuple[str, ...] | None = None  # None: the provider does not tell
    missing: tuple[str, ...] = ()  # scopes that our reading needs and the credential lacks
    expires_at: datetime | None = None
    notes: tuple[str, ...] = ()  # sentences for a person


def document(answer: Answer, named: str, remedies: dict[int, str]) -> dict[str, Any]:
    """The object in an answer with status 200; `remedies` has what a person does about another status.

    Raises ProviderRefused, and ProviderFault for a success that is no object.
    """
    if answer.status != OK:
        remedy = remedies.get(answer.status, "check the host of the credential")
        raise errors.ProviderRefused(
            f"{named} does not say whose credential it is ({answer.status}): {remedy}", status=answer.status
        )
    if not isinstance(answer.document, dict):
        raise errors.ProviderFault(f"{named} answered with what says nothing of a credential", status=answer.status)
    return answer.document


def name(said: object) -> str | None:
    """What a provider calls an account, in one short line without what may be a token; None where it is no text."""
    if not isinstance(said, str) or not said.strip():
        return None
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in said).split())
    return _LONG_WORD.sub("…", secret.redacted(line))[:MOST_NAME]


def scopes(said: object) -> tuple[str, ...]:
    """The scopes in a list, in the order of the alphabet; what does not look like one is left out."""
    listed: Iterable[object] = said if isinstance(said, list) else ()
    return tuple(sorted({word for word in listed if isinstance(word, str) and _SCOPE.fullmatch(word)}))


def moment(said: object) -> datetime | None:
    """A date or a time as providers write it, aware UTC, midnight for a date; None where it is none."""
    text = said.removesuffix(" UTC") if isinstance(said, str) else ""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
