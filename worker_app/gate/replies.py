"""Replies: what the classifiers of all providers read alike. Never raises, whatever the status, headers and body are."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from worker_app.gate import dates
from worker_app.gate.key import WHOLE_KEY
from worker_app.gate.policy import Endpoint
from worker_app.gate.signals import (
    BODY_BYTES,
    UNSTATED,
    Delay,
    Kind,
    Quota,
    RateSignal,
    Reply,
    ResetFormat,
    parse_reset,
    parse_retry_after,
)

DETAIL_CHARS = 120
READ_CHARS = 1_000  # of the word that are looked at
COUNT = re.compile(r"\d{1,15}", re.ASCII)  # a number that a double holds exactly
LONG_WORD = re.compile(r"[\w.~+/=-]{16,}", re.ASCII)  # may be a token
PLAIN_WORD = re.compile(r"[a-z_./-]+|[A-Z_]+")


class Reading:
    """One reply on its way through a classifier; collects the header values that were not believed."""

    def __init__(self, reply: Reply, endpoint: Endpoint) -> None:
        self.status = reply.status
        self.endpoint = endpoint
        self.document = reply.document
        self._body = reply.body[:BODY_BYTES]
        self._headers = {name.lower(): value.strip() for name, value in reply.headers.items()}
        self._quarantined: list[str] = []
        self.date = self._read_date()
        self.retry_after = self._believed(parse_retry_after(self.header("retry-after"), self.date))

    def header(self, name: str) -> str:
        """The value of a header, named in lower case; empty where there is none."""
        return self._headers.get(name, "")

    def count(self, name: str) -> int | None:
        """A header that holds a whole number, at least 0; None for anything else."""
        value = self.header(name)
        return int(value) if COUNT.fullmatch(value) else None

    def reset(self, name: str, form: ResetFormat) -> Delay:
        """A header that says when a quota is whole again."""
        return self._believed(parse_reset(self.header(name), form, self.date))

    @property
    def is_good(self) -> bool:
        """The request was answered as asked, be it with "not changed"."""
        return 200 <= self.status < 300 or self.status == 304

    @property
    def is_cached(self) -> bool:
        """A cache on the way answered: what it says about quota is old."""
        return bool(self.count("age"))

    @property
    def is_away(self) -> bool:
        """The provider as a whole is away and says for how long; any of them may."""
        return self.status == 503 and self.header("retry-after") != ""

    def quota(self, bucket: str, prefix: str, form: ResetFormat) -> Quota | None:
        """What the three headers `<prefix>limit`, `-remaining` and `-reset` say of `bucket`; None where they say nothing.

        A limit below 1 is how a server without limits fills the headers: the bucket is not counted.
        """
        if self.is_cached:
            return None
        limit, remaining = self.count(f"{prefix}limit"), self.count(f"{prefix}remaining")
        if limit == 0 or self.header(f"{prefix}limit").startswith("-"):
            return Quota(bucket, limit=0)
        if remaining is None:
            return None
        reset = self.reset(f"{prefix}reset", form)
        return Quota(bucket, limit, remaining, reset.seconds, reset.at_ms)

    def fields(self) -> Mapping[str, Any]:
        """The document where it is an object, else nothing."""
        return self.document if isinstance(self.document, dict) else {}

    def errors(self) -> list[Mapping[str, Any]]:
        """The `errors` of a GraphQL answer that are objects."""
        listed = self.fields().get("errors")
        return [error for error in listed if isinstance(error, dict)] if isinstance(listed, list) else []

    def message(self) -> str:
        """What the provider says in words: `message` of a JSON object, the body itself where it is no JSON."""
        if self.document is None:
            return self._body.decode("utf-8", "replace")
        message = self.fields().get("message")
        return message if isinstance(message, str) else ""

    def error_messages(self) -> list[str]:
        """What a GraphQL answer says in words, error by error."""
        return [text for error in self.errors() if isinstance(text := error.get("message"), str)]

    def passed(self, quotas: Iterable[Quota] = (), *, counted: Iterable[str] = ()) -> RateSignal:
        """No refusal. A good reply that tells nothing of a bucket in `counted` shows that the provider does not count it."""
        told = tuple(quotas)
        if 200 <= self.status < 300 and not self.is_cached and not self.endpoint.silent:
            silent = set(self.endpoint.buckets).intersection(counted) - {quota.bucket for quota in told}
            told += tuple(Quota(bucket, limit=0) for bucket in sorted(silent))
        kind = Kind.OK if self.is_good else Kind.OTHER
        return RateSignal(kind, self.endpoint.buckets[0], quotas=told, quarantined=tuple(self._quarantined))

    def refused(
        self,
        kind: Kind,
        bucket: str = WHOLE_KEY,
        *,
        delay: Delay = UNSTATED,
        quotas: Iterable[Quota] = (),
        detail: str = "",
        is_reason_known: bool = True,
    ) -> RateSignal:
        """A refusal, which closes `bucket` for as long as `delay` states, at least 1 s."""
        return RateSignal(
            kind,
            bucket,
            after=None if delay.seconds is None else max(1.0, delay.seconds),
            after_at_ms=delay.at_ms,
            quotas=tuple(quotas),
            detail=provider_word(detail),
            is_reason_known=is_reason_known,
            quarantined=tuple(self._quarantined),
        )

    def away(self) -> RateSignal:
        """The provider is away for as long as it says: like a burst of the whole key."""
        return self.refused(Kind.BURST, delay=self.retry_after, detail="503 Service Unavailable")

    def _read_date(self) -> datetime | None:
        try:
            return dates.parse_http_date(self.header("date"))
        except ValueError:
            return None

    def _believed(self, delay: Delay) -> Delay:
        if delay.quarantined:
            self._quarantined.append(delay.quarantined)
        return delay


def provider_word(text: str) -> str:
    """The provider's own word in one line, cut, without anything that may be a token: an error can echo the one it refused."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[:READ_CHARS]).split())
    return LONG_WORD.sub(_without_secret, line)[:DETAIL_CHARS]


def _without_secret(found: re.Match[str]) -> str:
    return found[0] if PLAIN_WORD.fullmatch(found[0]) else "…"
