"""A lease that stays alive while its owner works, however long one step takes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from worker_app import errors

RENEWALS_PER_LEASE = 5  # one that fails is no loss

log = structlog.get_logger(__name__)


@contextmanager
def kept(renew: Callable[[], bool], lease_seconds: float) -> Iterator[threading.Event]:
    """Call `renew` five times per lease from a thread (a greenlet in a patched process) until the block ends.

    Yields an event that is set once `renew` said False: another owner has the row, and whoever works on it stops.
    """
    over, lost = threading.Event(), threading.Event()

    def renew_until_over() -> None:
        while not over.wait(lease_seconds / RENEWALS_PER_LEASE):
            try:
                if not renew():
                    lost.set()
                    return
            except errors.StoreAway as error:
                log.warning("lease.renewal_failed", error=str(error))

    thread = threading.Thread(target=renew_until_over, name="lease", daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        over.set()
        thread.join(timeout=5)
