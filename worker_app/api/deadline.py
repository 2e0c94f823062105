"""Deadlines: a wait for a store that ends, also when the store is there and says nothing.

A stopped server accepts connections and never answers, so no timeout of a driver is short enough for a probe. The deadline is
gevent's: it ends whatever the greenlet waits for, and the driver drops the connection that was in the middle of an answer.
In a process that is not patched nothing waits in a greenlet, and the driver's own timeouts hold instead.
Page: https://www.gevent.org/api/gevent.timeout.html
"""

from collections.abc import Iterator
from contextlib import contextmanager

import gevent

from worker_app import errors


@contextmanager
def within(seconds: float, store: str) -> Iterator[None]:
    """Let the block run for at most `seconds`; raises StoreAway naming `store` when it takes longer."""
    timeout = gevent.Timeout(seconds)
    timeout.start()
    try:
        yield
    except gevent.Timeout as raised:
        if raised is not timeout:
            raise  # a deadline around this one
        raise errors.StoreAway(f"{store} did not answer within {seconds:g} s") from None
    finally:
        timeout.close()
