"""Enqueued: since when a message might have been taken, by its headers: when it was sent, or when its countdown was over.

`enqueued_at` is ours: seconds since the epoch by Redis's clock. `eta` is Celery's.
Page: https://docs.celeryq.dev/en/stable/internals/protocol.html
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

HEADER = "enqueued_at"


def since(headers: Mapping[str, Any]) -> float | None:
    """Seconds since the epoch; in the future for a message that waits for its time. None where it does not tell.

    Raises ValueError, TypeError or AttributeError for headers in other words.
    """
    sent, eta = headers.get(HEADER), headers.get("eta")
    moments = [float(sent)] if sent is not None else []
    moments += [_moment(eta)] if eta else []
    found = max(moments) if moments else math.nan
    return found if math.isfinite(found) else None


def _moment(text: Any) -> float:
    """`eta` is UTC where it names no zone."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
