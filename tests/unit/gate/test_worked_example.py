"""The worked example of docs/explanation/the-rate-limit-gate.md, number by number, on the book in memory."""

import pytest

from worker_app.gate.book import Ask, BucketAsk, Granted, Told, Waits
from worker_app.gate.key import GateKey, Priority, Reason
from worker_app.gate.memory_book import MemoryBook
from worker_app.gate.policies import GITHUB
from worker_app.gate.share import shared_ask, shared_signal
from worker_app.gate.signals import Kind, Quota, RateSignal

KEY = GateKey("github", "acme", "github.com")
ENDPOINT = GITHUB.endpoint("issues.list")
LEFT = RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, 300, 1800.0),))
REFUSED = RateSignal(Kind.SECONDARY, bucket="*", after=58.0, detail="slow down")
AGAIN = RateSignal(Kind.SECONDARY, bucket="*", detail="slow down")


class Story:
    """One organisation at GitHub: noon, 300 of 5,000 requests left until half past twelve."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.book = MemoryBook(lambda: self.now)
        self.count = 0
        self.observe(self.granted(), LEFT)

    def ask(self, priority: Priority = Priority.SYNC) -> Granted | Waits:
        self.count += 1
        return self.book.acquire(KEY, self.request(priority))

    def request(self, priority: Priority = Priority.SYNC) -> Ask:
        buckets = tuple(BucketAsk(name, GITHUB.buckets[name], 1, False) for name in ENDPOINT.buckets)
        return Ask(f"a.{self.count}|core:1", 65_000, priority, 0, GITHUB.max_conc, 5000, 1000, buckets)

    def granted(self) -> tuple[str, int]:
        """A request that may start: its lease and the moment at which it does."""
        answer = self.ask()
        assert isinstance(answer, Granted)
        return f"a.{self.count}|core:1", answer.now_ms + answer.delay_ms

    def waits(self, priority: Priority = Priority.SYNC) -> Waits:
        answer = self.ask(priority)
        assert isinstance(answer, Waits)
        return answer

    def observe(self, sent: tuple[str, int], signal: RateSignal) -> int:
        """The seconds that a refusal closes."""
        names = ("*", *ENDPOINT.buckets)
        told = Told(*sent, signal, "secondary", 1000, 60_000, GITHUB.max_conc, GITHUB.buckets, names)
        return self.book.observe(KEY, told).left_ms

    def conc(self) -> int:
        """The concurrency limit as learned."""
        return int(self.book.sync(KEY).fields["conc"]) // 1000

    def most_at_once(self) -> int:
        """How many requests start now before one has to wait for another; they all end without a reply."""
        leases: list[tuple[str, int]] = []
        while isinstance(answer := self.ask(), Granted):
            leases.append((f"a.{self.count}|core:1", answer.now_ms))
        assert answer.reason is Reason.CONCURRENCY
        for lease in leases:
            self.observe(lease, RateSignal(Kind.UNKNOWN, bucket="*"))
        return len(leases)


@pytest.fixture
def story() -> Story:
    return Story()


def refuse_a_salvo(story: Story) -> list[int]:
    salvo = [story.granted() for _ in range(12)]
    story.now += 80
    return [story.observe(sent, REFUSED) for sent in salvo]


def test_what_is_left_is_kept_for_the_more_urgent(story: Story) -> None:
    bulk = story.waits(Priority.BULK)
    assert (bulk.reason, bulk.bucket, round(bulk.wait_ms / 1000)) == (Reason.QUOTA, "core", 365)
    for priority in (Priority.SYNC, Priority.INTERACTIVE):
        assert isinstance(story.ask(priority), Granted)
    story.now += 366_000
    assert isinstance(story.ask(Priority.BULK), Granted)


def test_salvo_of_refusals_closes_for_59_seconds_and_counts_once(story: Story) -> None:
    assert refuse_a_salvo(story) == [59_000] * 12
    assert story.conc() == 10
    assert story.waits().fails == 1


def test_those_who_wait_are_let_out_in_order(story: Story) -> None:
    refuse_a_salvo(story)
    waits = [story.waits(priority).wait_ms for priority in (Priority.SYNC, Priority.SYNC, Priority.BULK)]
    assert waits == [59_250, 59_265, 60_030]
    assert story.waits(Priority.INTERACTIVE).wait_ms == 59_045


def test_concurrency_rises_in_five_seconds_from_one_to_half_of_what_it_was(story: Story) -> None:
    refuse_a_salvo(story)
    found = []
    story.now += 59_000
    for step in (0, 1000, 1500, 2500):
        story.now += step
        found.append(story.most_at_once())
    assert found == [1, 2, 5, 10]


def test_next_refusal_without_a_stated_wait_closes_for_twice_the_default(story: Story) -> None:
    refuse_a_salvo(story)
    story.now += 60_000
    assert story.observe(story.granted(), AGAIN) == 121_000
    assert story.conc() == 5


def test_share_of_one_of_five_workers(story: Story) -> None:
    ask = shared_ask(story.request(), GITHUB.max_conc, 5)
    assert ask.max_conc == 4
    assert [item.policy.gap for item in ask.buckets] == [0.0, 0.4]
    assert shared_signal(LEFT, 5).quotas[0].remaining == 60


def test_share_of_many_workers_is_one_request_and_never_none(story: Story) -> None:
    for workers, each in ((16, 1), (20, 1), (40, 1), (10, 2)):
        assert shared_ask(story.request(), GITHUB.max_conc, workers).max_conc == each
        assert each * workers <= max(workers, 1.25 * GITHUB.max_conc)
