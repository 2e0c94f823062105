"""A crowd at one Deliveries: threads, or greenlets when gevent has patched the interpreter. `python -m gevent.monkey` runs it."""

import sys
import threading
from collections import Counter

from tests.integration.worker.broker import LIFE_SECONDS, Broker, lists_of

MEMBERS = 8
MESSAGES = 600


class Crowd:
    """Members that take from two lists and settle, give back and tend, all at once, until every message is settled."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.deliveries = broker.deliveries()
        self.settled: Counter[str] = Counter()
        self.given_back: set[str] = set()
        self.faults: list[str] = []
        self.is_over = False
        self._barrier = threading.Barrier(MEMBERS)
        self._lock = threading.Lock()

    def run(self) -> None:
        """Publish, let all of them work, and wait for them."""
        for number in range(MESSAGES):
            self.broker.publish(str(number), list_key=("a", "b")[number % 2])
        threads = [threading.Thread(target=self._member, args=(number,)) for number in range(MEMBERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        self.deliveries.pay()

    def _member(self, number: int) -> None:
        try:
            self._barrier.wait(5)
            while not self.is_over:
                for tag, _ in self.deliveries.exchange(["a", "b"], 5, life_seconds=LIFE_SECONDS):
                    self._judge(tag)
                if number == 0:
                    self.deliveries.tend(3600, lists_of)
                    self.deliveries.renew()
        except Exception as fault:  # noqa: BLE001 - a member tells its fault to who waits for it
            self.faults.append(repr(fault))
            self.is_over = True

    def _judge(self, tag: str) -> None:
        with self._lock:
            is_first = tag not in self.given_back
            self.given_back.add(tag)
            if not is_first or int(tag) % 3:
                self.settled[tag] += 1
                self.is_over |= self.settled.total() >= MESSAGES
        if is_first and not int(tag) % 3:
            self.deliveries.give_back_later(tag, is_next=bool(int(tag) % 2))
        else:
            self.deliveries.settle(tag)

    def verdict(self) -> str:
        """`all well`, or what is wrong."""
        if self.faults:
            return "; ".join(self.faults)
        if set(self.settled) != {str(number) for number in range(MESSAGES)} or set(self.settled.values()) != {1}:
            return f"settled other than once: {[tag for tag, count in self.settled.items() if count != 1]}"
        left = self.broker.ready("a") + self.broker.ready("b") + sorted(self.broker.unacked())
        return f"left behind: {left}" if left or self.deliveries.held or self.deliveries.owed else "all well"


def main(url: str) -> None:
    """Run a crowd and print its verdict."""
    crowd = Crowd(Broker(url))
    crowd.run()
    sys.stdout.write(crowd.verdict())
    crowd.broker.close()


if __name__ == "__main__":
    main(sys.argv[1])
