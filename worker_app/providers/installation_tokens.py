"""Installation tokens: one per App and installation in a process, fetched once per life however many batches ask.

Whoever finds none that is fresh fetches it; everybody else who asks meanwhile waits for that fetch, its token or its error.
No token outlives its life here. Knows no HTTP: the fetch is the caller's.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from uuid import UUID

from worker_app import errors
from worker_app.secret import Secret

MOST_EARLY_SECONDS = 300.0  # a token is renewed so long before its end,
EARLY_SHARE = 6  # or when this part of its life is left: whichever is less
WAIT_SECONDS = 90.0  # for somebody else's fetch: above the gate's wait, a free connection and one whole request


@dataclass(frozen=True, slots=True)
class TokenKey:
    """Whose token it is. Another private key is another one: a key that was withdrawn gets nothing from here."""

    org_id: UUID
    host: str
    app_id: int
    installation_id: int
    private_key: str  # a digest of it


@dataclass(frozen=True, slots=True)
class Token:
    """A token and until when it is used, on this process's monotonic clock: no wall clock of ours has a say."""

    text: Secret
    fresh_until: float


def fresh_seconds(life: float) -> float:
    """For how many seconds a token of `life` seconds is used before the next one is fetched."""
    return life - min(MOST_EARLY_SECONDS, life / EARLY_SHARE)


class InstallationTokens:
    """The tokens of one process. Safe for threads and greenlets; to be made after a fork."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, wait_seconds: float = WAIT_SECONDS) -> None:
        self.clock = clock
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()  # never held while anything is waited for
        self._held: dict[TokenKey, Token] = {}
        self._flights: dict[TokenKey, Future[Token | errors.DevHopsError]] = {}

    def get(self, key: TokenKey, fetch: Callable[[], Token], *, refused: Token | None = None) -> Token:
        """A fresh token other than `refused`, which the provider did not take.

        Raises what `fetch` raises, whoever called it, and TransientError when somebody else's fetch takes too long.
        """
        with self._lock:
            self._forget_old(key, refused)
            if held := self._held.get(key):
                return held
            flight = self._flights.get(key)
            if is_first := flight is None:
                flight = self._flights[key] = Future()
        return self._fetched(key, flight, fetch) if is_first else self._awaited(flight)

    def _forget_old(self, key: TokenKey, refused: Token | None) -> None:
        now = self.clock()
        if refused is not None and self._held.get(key) is refused:
            del self._held[key]
        self._held = {other: token for other, token in self._held.items() if token.fresh_until > now}

    def _fetched(
        self, key: TokenKey, flight: "Future[Token | errors.DevHopsError]", fetch: Callable[[], Token]
    ) -> Token:
        landed: Token | errors.DevHopsError = errors.TransientError("the fetch of an installation token was broken off")
        try:
            landed = token = fetch()
        except errors.DevHopsError as error:
            landed = error
            raise
        finally:
            with self._lock:
                if isinstance(landed, Token):
                    self._held[key] = landed
                del self._flights[key]
            flight.set_result(landed)
        return token

    def _awaited(self, flight: "Future[Token | errors.DevHopsError]") -> Token:
        try:
            landed = flight.result(self._wait_seconds)
        except TimeoutError:
            raise errors.TransientError(
                f"another batch's fetch of an installation token took longer than {self._wait_seconds:g} s"
            ) from None
        if isinstance(landed, errors.DevHopsError):
            raise _of_its_own(landed) from landed
        return landed


def _of_its_own(error: errors.DevHopsError) -> errors.DevHopsError:
    """The same error once more: one that several threads raise would gather the traces of them all."""
    made = type(error).__new__(type(error), *error.args)
    made.__dict__.update(error.__dict__)
    return made
