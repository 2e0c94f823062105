"""Faults of a conversation, in words of ours: the libraries' own texts hold whole URLs and, for a bad header, its value. Pure."""

import os
import socket
import ssl
from collections.abc import Iterator

from urllib3 import exceptions


def words(error: BaseException, *, otherwise: str) -> str:
    """What went wrong, to follow the name of the other side; says nothing of what was asked, nor with which credential."""
    causes = list(_causes(error))
    is_proxy = any(isinstance(cause, exceptions.ProxyError) for cause in causes)
    said = next((said for cause in causes if (said := _said(cause))), otherwise)
    return f"could not be reached through the proxy: {said}" if is_proxy else said


def is_timeout(error: BaseException) -> bool:
    """Whether nothing more came in time. gevent tells it of an encrypted connection by an SSLError with those words."""
    return any(
        isinstance(cause, exceptions.ReadTimeoutError | TimeoutError)
        or (isinstance(cause, ssl.SSLError) and "timed out" in str(cause))
        for cause in _causes(error)
    )


def _said(cause: BaseException) -> str:
    match cause:
        case ssl.SSLCertVerificationError():
            return f"has a TLS certificate that is not accepted: {cause.verify_message}"
        case ssl.SSLError():
            return f"fails at TLS: {cause.reason or 'it was broken off'}"
        case socket.gaierror():
            return "has a name that does not resolve"
        case exceptions.EmptyPoolError():
            return "has no free connection here: more requests than slots are under way"
        case exceptions.DecodeError():
            return "sent a body that cannot be decompressed"
        case OSError() if cause.errno:
            return f"cannot be talked to: {os.strerror(cause.errno)}"
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and whatever it was made of: requests and urllib3 wrap each other's, each in a way of its own."""
    waiting, seen = [error], set[int]()
    while waiting:
        cause = waiting.pop(0)
        if id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            parts = (*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__)
            waiting.extend(part for part in parts if isinstance(part, BaseException))
