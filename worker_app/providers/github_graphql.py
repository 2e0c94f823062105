"""GraphQL replies: whether one is whole, lacks something, or is a failure that came with status 200. Pure.

The client has dealt with limits already.
Pages: https://docs.github.com/en/graphql/guides/forming-calls-with-graphql, https://spec.graphql.org/October2021/#sec-Errors
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from worker_app import errors
from worker_app.providers import github_state
from worker_app.providers.client import Answer
from worker_app.providers.github_fields import Json

TOO_MUCH_TYPES = frozenset({"MAX_NODE_LIMIT_EXCEEDED", "RESOURCE_LIMITS_EXCEEDED", "SERVICE_UNAVAILABLE", "INTERNAL"})
TOO_MUCH_WORDS = ("something went wrong", "timeout", "timed out", "timedout", "resource limits")
MOST_REASONS = 3


class Found(NamedTuple):
    """What a reply holds, and why it lacks something, in words for a person."""

    data: Json
    reasons: tuple[str, ...]


def judge(answer: Answer, full_name: str) -> Found:
    """The data of a reply with status 200.

    Raises ProviderFault when GitHub could not do all of it, which a smaller page may cure; SourceUnavailable when the repository
    is withheld as a whole. Data beside an error is a reply that lacks something.
    """
    document = answer.document if isinstance(answer.document, Mapping) else {}
    data, faults = document.get("data"), [_Fault(item) for item in document.get("errors") or ()]
    if data is None and faults:
        data = {}
    if not isinstance(data, Mapping) or (not faults and data.get("repository", data) is None):
        raise errors.ProviderFault("GitHub's GraphQL answered with what is no reply", status=answer.status)
    if any(fault.is_too_much for fault in faults):
        raise errors.ProviderFault(f"GitHub could not answer about {full_name}: {_words(faults)}", status=answer.status)
    if faults and all(_is_nothing(value) for value in data.values()) and not _is_one_gone(data, faults):
        raise _failure(answer, full_name, faults)
    return Found(data, tuple(f"GitHub left something out of {full_name}: {fault}" for fault in faults[:MOST_REASONS]))


class _Fault:
    """One entry of `errors`."""

    def __init__(self, item: Any) -> None:
        fields = item if isinstance(item, Mapping) else {}
        self.type = str(fields.get("type", ""))
        self.message = str(fields.get("message", "no reason given"))
        extensions = fields.get("extensions")
        self.is_saml = isinstance(extensions, Mapping) and extensions.get("saml_failure") is True

    @property
    def is_too_much(self) -> bool:
        text = self.message.lower()
        return self.type in TOO_MUCH_TYPES or any(words in text for words in TOO_MUCH_WORDS)

    @property
    def demands_sso(self) -> bool:
        return self.is_saml or "saml enforcement" in self.message.lower()

    def __str__(self) -> str:
        said = f"{self.type}: {self.message}" if self.type else self.message
        return github_state.plain(said)


def _words(faults: Sequence[_Fault]) -> str:
    return "; ".join(str(fault) for fault in faults[:MOST_REASONS])


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(item is None for item in value))


def _is_one_gone(data: Json, faults: Sequence[_Fault]) -> bool:
    """Whether what was asked by id is not there any more, which says nothing about its repository."""
    return bool(data) and "repository" not in data and all(fault.type == "NOT_FOUND" for fault in faults)


def _failure(answer: Answer, full_name: str, faults: Sequence[_Fault]) -> errors.DevHopsError:
    if any(fault.demands_sso for fault in faults):
        return github_state.sso_required(answer, full_name)
    if all(fault.type in {"NOT_FOUND", "FORBIDDEN"} for fault in faults):
        text = f"{full_name} cannot be read: {_words(faults)}; check that the credential of this source may read it"
        return errors.SourceUnavailable(text, evidence=github_state.evidence(answer))
    # A document that GitHub does not understand is told so in the same way as a fault of its own: tried again, then failed.
    return errors.ProviderFault(f"GitHub did not answer about {full_name}: {_words(faults)}", status=answer.status)
