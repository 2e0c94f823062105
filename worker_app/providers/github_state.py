"""States: what an answer of GitHub that is no success means for the source or the dataset. Pure, judged by table.

The client has dealt with limits, refused credentials and faults of the server already. Only what is listed here counts as empty
or switched off; anything else is an error, and never "nothing there".
Pages: https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api,
https://docs.github.com/en/authentication/authenticating-with-single-sign-on
"""

import re
from collections.abc import Mapping

from worker_app import errors, secret
from worker_app.providers.client import Answer

EVIDENCE_HEADERS = ("Date", "X-GitHub-SSO", "X-GitHub-Request-Id", "X-OAuth-Scopes", "X-Accepted-OAuth-Scopes",
                    "X-Accepted-GitHub-Permissions", "Location")  # fmt: skip
EVIDENCE_LENGTH = 500  # characters of the body
REASON_LENGTH = 200
TOKEN = re.compile(
    r"\bgh[a-z]_[\w.-]{4,}|\bgithub_pat_\w{4,}|\beyJ[\w.-]{8,}|(?i:\b(?:bearer|basic)\s+\S{6,}|\btoken\s+[0-9a-f]{20,})"
)
SSO_URL = re.compile(r"required;\s*url=(\S+)", re.IGNORECASE)
SWITCHED_OFF = re.compile(r"\b(?:issues|actions|pull requests|deployments)\b.{0,40}\bdisabled\b", re.IGNORECASE)
EMPTY = "git repository is empty"


def message(answer: Answer) -> str:
    """What GitHub says, on one line, without secrets."""
    said = answer.document.get("message") if isinstance(answer.document, Mapping) else None
    return plain(said if isinstance(said, str) else f"status {answer.status}")


def is_empty_repository(answer: Answer) -> bool:
    """Whether a repository without any commit answered."""
    return answer.status == 409 and EMPTY in message(answer).lower()


def withheld(answer: Answer) -> str | None:
    """Why a list with status 200 lacks what belongs to some organisations, in words for a person; None when it does not."""
    said = answer.headers.get("X-GitHub-SSO", "")
    if not said.lower().startswith("partial-results"):
        return None
    numbers = said.partition("organizations=")[2] or "not named"
    return f"GitHub left out what needs single sign-on (organisations by id: {plain(numbers)})"


def source_fault(answer: Answer, full_name: str) -> errors.DevHopsError | None:
    """What an answer about a repository itself means; None for a success.

    404 is also what GitHub says of a repository that the credential may not see, so it is asked again in the next run.
    """
    if _is_success(answer):
        return None
    if answer.status == 410:
        return _unavailable(answer, full_name, "it was deleted", state="gone")
    return _refusal(answer, full_name, "check its name, and that the credential of this source may read it")


def dataset_fault(answer: Answer, full_name: str, dataset: str) -> errors.DevHopsError | None:
    """What an answer about one dataset of a repository means that has just answered itself; None for a success.

    A credential may read a repository and not everything of it: that fails the dataset alone, and is no state of the source.
    """
    if _is_success(answer):
        return None
    is_missing = answer.status == 404 and dataset == "pipeline_runs"  # a server without Actions
    is_off = answer.status in {403, 404} and SWITCHED_OFF.search(message(answer))
    if answer.status == 410 or is_missing or is_off:
        return errors.DatasetDisabled(f"{full_name} has {dataset} switched off: {message(answer)} ({answer.status})")
    if answer.status in {403, 404, 451} and not SSO_URL.match(answer.headers.get("X-GitHub-SSO", "")):
        text = f"GitHub gives no {dataset} of {full_name}: {message(answer)} ({answer.status})"
        remedy = "give the credential of this source the right to read them"
        return errors.ProviderRefused(f"{text}; {remedy}", status=answer.status)
    return _refusal(answer, full_name, "check the credential of this source")


def evidence(answer: Answer) -> Mapping[str, object]:
    """What is kept of an answer as proof of a state; no secret in it."""
    return {
        "status": answer.status,
        "headers": {
            name: plain(answer.headers[name], EVIDENCE_LENGTH) for name in EVIDENCE_HEADERS if name in answer.headers
        },
        "body": plain(answer.body[: 4 * EVIDENCE_LENGTH].decode(errors="replace"), EVIDENCE_LENGTH),
    }


def sso_required(answer: Answer, full_name: str) -> errors.SourceUnavailable:
    """The error of an answer that asks for single sign-on; the link that GitHub gives is in the message."""
    link = SSO_URL.search(answer.headers.get("X-GitHub-SSO", ""))
    remedy = f"authorise the credential at {link[1]}" if link else "authorise the credential for the organisation"
    reason = f"its organisation demands single sign-on; {remedy}"
    return _unavailable(answer, full_name, reason, state="sso_required")


def _is_success(answer: Answer) -> bool:
    return 200 <= answer.status < 300


def _refusal(answer: Answer, full_name: str, remedy: str) -> errors.DevHopsError:
    if SSO_URL.match(answer.headers.get("X-GitHub-SSO", "")):
        return sso_required(answer, full_name)
    if answer.status in {403, 404, 451}:
        return _unavailable(answer, full_name, f"{message(answer)} ({answer.status}); {remedy}")
    text = f"GitHub does not take what it was asked about {full_name}: {message(answer)} ({answer.status})"
    return errors.ProviderRefused(text, status=answer.status)


def _unavailable(answer: Answer, full_name: str, reason: str, state: str = "inaccessible") -> errors.SourceUnavailable:
    text = f"{full_name} cannot be read: {reason}"
    return errors.SourceUnavailable(text, state=state, evidence=evidence(answer))


def plain(text: str, most: int = REASON_LENGTH) -> str:
    """The beginning of what GitHub says, as a message may hold it: printable, on one line, without a secret, whole or cut."""
    return "".join(letter if letter.isprintable() else " " for letter in TOKEN.sub("***", secret.redacted(text))[:most])
