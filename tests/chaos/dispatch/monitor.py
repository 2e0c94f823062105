"""Monitor: what a Redis is told, from outside, to count how often each message was published."""

import re
import threading
from collections import defaultdict
from typing import Any

import redis

LPUSH = re.compile(r"^LPUSH (\S+) ")
TASK_ID = re.compile(r'"correlation_id": "([0-9a-f-]+)"')
TAG = re.compile(r'"delivery_tag": "([0-9a-f-]+)"')


class Monitor:
    """Watches until it is closed. A message that is put back keeps its tag, so it counts once."""

    def __init__(self, url: str) -> None:
        self.tags: dict[str, set[str]] = defaultdict(set)  # task id -> what was published under it
        self._client = redis.Redis.from_url(url, socket_timeout=None)
        self._is_closed = False
        self._is_listening = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        assert self._is_listening.wait(10)

    @property
    def doubled(self) -> int:
        """Messages that were published beside the first one of their id."""
        return sum(len(tags) - 1 for tags in self.tags.values())

    def close(self) -> None:
        """Look no more. Fails when it had ended by itself, and so has not seen everything."""
        assert self._thread.is_alive()
        self._is_closed = True
        self._client.ping()  # one more command, for a thread that waits for one
        self._thread.join(timeout=5)
        self._client.close()

    def _watch(self) -> None:
        watching: Any = self._client
        with watching.monitor() as monitor:
            self._is_listening.set()
            while not self._is_closed:
                text = monitor.next_command()["command"].replace('\\"', '"')
                if LPUSH.match(text) and (task := TASK_ID.search(text)) and (tag := TAG.search(text)):
                    self.tags[task.group(1)].add(tag.group(1))
