"""Fields: how the values that GitHub sends become ours, the same way for every record. Pure.

REST and GraphQL name the same account by one id: REST's `node_id` is GraphQL's `id`, in the new format that the header
`X-Github-Next-Global-ID` asks for. The account of somebody who left is `ghost` in REST, null in GraphQL, None here.
Page: https://docs.github.com/en/graphql/guides/migrating-graphql-global-node-ids
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from worker_app import records

Json = Mapping[str, Any]

GHOST = "ghost"
BOT = "Bot"
REPLACEMENT = "�"
SURROGATE = re.compile("[\ud800-\udfff]")
# What a body must hold for a text in it to have such a character: JSON takes neither of them as it is.
SUSPICIOUS = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")


class Account(NamedTuple):
    """Who did something; both None where the account is gone."""

    ext_id: str | None
    is_bot: bool | None


NOBODY = Account(None, None)


def rest_account(user: Json | None) -> Account:
    """The account of a REST object; nobody for null and for `ghost`."""
    if user is None or user["login"] == GHOST:
        return NOBODY
    return Account(user["node_id"], user.get("type") == BOT)


def graphql_account(actor: Json | None) -> Account:
    """The account of a GraphQL actor; nobody for null, and for the ghost by name, should it ever come so."""
    if actor is None or actor["login"] == GHOST:
        return NOBODY
    return Account(actor["id"], actor["__typename"] == BOT)


def within(document: Json | None, *path: str) -> Any:
    """What stands at `path`; None as soon as something on the way is null or missing."""
    found: Any = document
    for name in path:
        if found is None:
            return None
        found = found.get(name)
    return found


def moment(text: str) -> datetime:
    """A time of GitHub as an aware UTC datetime."""
    return datetime.fromisoformat(text).astimezone(UTC)


def moment_or_none(text: str | None) -> datetime | None:
    """A time that may be null."""
    return None if text is None else moment(text)


def iso(at: datetime) -> str:
    """A time as GitHub's parameters take it, in whole seconds, rounded down."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def cleaned(body: bytes, document: Any) -> tuple[Any, int]:
    """`document`, parsed from `body`, with texts that every store takes, and how many texts had to be changed for that.

    U+0000 is removed, half of a surrogate pair is replaced. Most bodies hold neither and are given back as they are.
    """
    if not SUSPICIOUS.search(body):
        return document, 0
    changed: list[str] = []
    return _cleaned(document, changed), len(changed)


def _cleaned(value: Any, changed: list[str]) -> Any:
    if isinstance(value, str):
        text = SURROGATE.sub(REPLACEMENT, value.replace("\0", ""))
        if text != value:
            changed.append(text)
        return text
    if isinstance(value, list):
        return [_cleaned(item, changed) for item in value]
    if isinstance(value, dict):
        return {name: _cleaned(item, changed) for name, item in value.items()}
    return value


def without_doubles(found: Iterable[records.Record]) -> tuple[records.Record, ...]:
    """The records, none of them twice; of two with one key the newer one stays, of two equally old ones the later."""
    kept: dict[tuple[object, ...], records.Record] = {}
    for record in found:
        key = _key(record)
        held = kept.get(key)
        if held is None or _age(record) >= _age(held):
            kept[key] = record
    return tuple(kept.values())


def _key(record: records.Record) -> tuple[object, ...]:
    kind = type(record)
    match record:
        case records.PullRequestCommit():
            return kind, record.pr_ext_id, record.ext_id
        case records.Transition():
            return kind, record.item_ext_id, record.ext_id
        case records.Review():
            return kind, record.kind, record.ext_id
        case records.PipelineRun():
            return kind, record.ext_id, record.attempt
        case _:
            return kind, record.ext_id


def _age(record: records.Record) -> datetime:
    return getattr(record, "updated_at", datetime.min.replace(tzinfo=UTC))
