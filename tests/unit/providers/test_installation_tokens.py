import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID

import pytest

from worker_app import errors
from worker_app.providers.installation_tokens import InstallationTokens, Token, TokenKey, fresh_seconds
from worker_app.secret import Secret

KEY = TokenKey(UUID(int=1), "github.com", 7, 42, "digest")
THREADS = 20
DEADLINE = 20.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Source:
    """Fetches tokens of ten seconds, and notes each fetch; `gate` holds a fetch until it is set."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.fetched: list[Token] = []
        self.begun = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.fault: BaseException | None = None

    def __call__(self) -> Token:
        self.begun.set()
        assert self.gate.wait(DEADLINE)
        if self.fault:
            raise self.fault
        token = Token(Secret(f"ghs_{len(self.fetched)}"), self.clock.now + 10)
        self.fetched.append(token)
        return token


class Watched(InstallationTokens):
    """Counts who has come to wait for somebody else's fetch."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock=clock, wait_seconds=DEADLINE)
        self.waiting = threading.Semaphore(0)

    def _awaited(self, flight: "Future[Token | errors.DevHopsError]") -> Token:
        self.waiting.release()
        return super()._awaited(flight)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def source(clock: Clock) -> Source:
    return Source(clock)


@pytest.fixture
def tokens(clock: Clock) -> Watched:
    return Watched(clock)


def crowd(tokens: Watched, source: Source, refused: Token | None = None) -> list[Token | BaseException]:
    """What twenty threads get, one of which fetches while the others wait for it."""

    def one() -> Token | BaseException:
        try:
            return tokens.get(KEY, source, refused=refused)
        except BaseException as error:  # noqa: BLE001 - what each got is what is looked at
            return error

    source.gate.clear()
    with ThreadPoolExecutor(THREADS) as pool:
        answers = [pool.submit(one) for _ in range(THREADS)]
        for _ in range(THREADS - 1):
            assert tokens.waiting.acquire(timeout=DEADLINE)
        source.gate.set()
        return [answer.result(DEADLINE) for answer in answers]


@pytest.mark.parametrize(("life", "seconds"), [(3600.0, 3300.0), (1800.0, 1500.0), (600.0, 500.0), (2.0, 2 - 2 / 6)])
def test_token_is_renewed_five_minutes_or_a_sixth_of_its_life_before_its_end(life: float, seconds: float) -> None:
    assert fresh_seconds(life) == pytest.approx(seconds)


def test_token_is_fetched_once_while_it_is_fresh(tokens: Watched, source: Source, clock: Clock) -> None:
    first = tokens.get(KEY, source)
    clock.now += 9.9
    assert tokens.get(KEY, source) is first
    clock.now += 0.1
    assert tokens.get(KEY, source) is not first
    assert len(source.fetched) == 2


def test_crowd_that_asks_at_once_gets_the_token_of_one_fetch(tokens: Watched, source: Source) -> None:
    assert crowd(tokens, source) == source.fetched * THREADS
    assert len(source.fetched) == 1


def test_crowd_whose_token_was_refused_gets_one_other(tokens: Watched, source: Source) -> None:
    refused = tokens.get(KEY, source)
    answers = crowd(tokens, source, refused)
    assert len(source.fetched) == 2
    assert answers == [source.fetched[1]] * THREADS


def test_token_that_somebody_has_renewed_already_is_taken(tokens: Watched, source: Source) -> None:
    refused = tokens.get(KEY, source)
    newer = tokens.get(KEY, source, refused=refused)
    assert tokens.get(KEY, source, refused=refused) is newer
    assert len(source.fetched) == 2


def test_refused_token_is_handed_out_to_nobody_any_more(tokens: Watched, source: Source) -> None:
    refused = tokens.get(KEY, source)
    source.fault = errors.ProviderFault("down", status=502)
    with pytest.raises(errors.ProviderFault):
        tokens.get(KEY, source, refused=refused)
    source.fault = None
    assert tokens.get(KEY, source) is source.fetched[1]


@pytest.mark.parametrize(
    "fault",
    [
        errors.CredentialRefused("suspended"),
        errors.ProviderFault("down", status=502),
        errors.RateLimited(
            "closed",
            retry_in=5,
            provider="github",
            org_id="1",
            host="github.com",
            bucket="auth",
            reason="window",
            fails=3,
        ),
    ],
)
def test_crowd_gets_the_error_of_the_fetch_each_one_of_its_own(
    tokens: Watched, source: Source, fault: errors.DevHopsError
) -> None:
    source.fault = fault
    answers = crowd(tokens, source)
    assert {type(answer) for answer in answers} == {type(fault)}
    assert all(vars(answer) == vars(fault) and str(answer) == str(fault) for answer in answers)
    assert len({id(answer) for answer in answers}) == THREADS


def test_next_one_fetches_again_after_an_error(tokens: Watched, source: Source) -> None:
    source.fault = errors.ProviderFault("down", status=502)
    with pytest.raises(errors.ProviderFault):
        tokens.get(KEY, source)
    source.fault = None
    assert tokens.get(KEY, source) is source.fetched[0]


def test_fetch_that_is_killed_leaves_nobody_waiting(tokens: Watched, source: Source) -> None:
    source.fault = KeyboardInterrupt()
    answers = crowd(tokens, source)
    names = sorted(type(answer).__name__ for answer in answers)
    assert names == ["KeyboardInterrupt", *["TransientError"] * (THREADS - 1)]
    source.fault = None
    assert tokens.get(KEY, source) is source.fetched[0]


def test_wait_for_a_fetch_has_an_end(clock: Clock, source: Source) -> None:
    tokens = InstallationTokens(clock=clock, wait_seconds=0.01)
    source.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(tokens.get, KEY, source)
        assert source.begun.wait(DEADLINE)
        with pytest.raises(errors.TransientError, match=r"took longer than 0\.01 s"):
            tokens.get(KEY, source)
        source.gate.set()
        assert slow.result(DEADLINE) is source.fetched[0]


def test_tokens_of_others_are_never_mixed(tokens: Watched, source: Source) -> None:
    others = [
        replace(KEY, org_id=UUID(int=2)), replace(KEY, host="ghe.acme.com"), replace(KEY, app_id=8),
        replace(KEY, installation_id=43), replace(KEY, private_key="another"),
    ]  # fmt: skip
    got = [tokens.get(key, source) for key in (KEY, *others)]
    assert len({id(token) for token in got}) == 6
    assert [tokens.get(key, source) for key in (KEY, *others)] == got


def test_fetch_of_one_key_keeps_no_other_waiting(tokens: Watched, source: Source, clock: Clock) -> None:
    source.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(tokens.get, KEY, source)
        assert source.begun.wait(DEADLINE)
        assert tokens.get(replace(KEY, app_id=8), Source(clock)).text == Secret("ghs_0")
        source.gate.set()
        assert slow.result(DEADLINE) is source.fetched[0]


def test_token_is_forgotten_when_its_time_is_over(tokens: Watched, source: Source, clock: Clock) -> None:
    tokens.get(KEY, source)
    clock.now += 10
    tokens.get(replace(KEY, app_id=8), source)
    assert [token.text for token in tokens._held.values()] == [Secret("ghs_1")]
