"""Told: the one door by which the words of a fault or of a provider become a column. No secret, bounded, and text for Postgres.

A provider may answer with what it was sent, the Authorization header too; and with what no text in Postgres holds.
"""

import json
from collections.abc import Mapping
from typing import overload

from worker_app import secret


@overload
def text(said: str) -> str: ...
@overload
def text(said: None) -> None: ...
def text(said: str | None) -> str | None:
    """The words as they are stored: redacted, then cut, with U+0000 and lone surrogates replaced."""
    return None if said is None else _storable(secret.sanitized(said))


def document(said: Mapping[str, object] | None) -> str | None:
    """A document as JSON, each text in it as `text` gives it."""
    return None if said is None else json.dumps(_tree(said))


def _tree(value: object) -> object:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return {text(str(name)): _tree(item) for name, item in value.items()}
    return [_tree(item) for item in value] if isinstance(value, list | tuple) else value


def _storable(words: str) -> str:
    return words.replace("\0", "\ufffd").encode(errors="replace").decode()
