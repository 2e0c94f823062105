from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.redis_proxy import RedisProxy
from worker_app.embedded.valkey import EmbeddedValkey


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedValkey, EmbeddedValkey]]:
    """Two nodes of Redis, the second to fail over to."""
    made = [EmbeddedValkey(tmp_path_factory.mktemp("node"), password=None, durable=False) for _ in range(2)]
    try:
        for node in made:
            node.start()
        yield made[0], made[1]
    finally:
        for node in made:
            node.delete_data()


@pytest.fixture
def node(nodes: tuple[EmbeddedValkey, EmbeddedValkey]) -> Iterator[redis.Redis]:
    """A client of the first node; both are empty."""
    for each in nodes:
        with redis.Redis.from_url(each.url) as client:
            client.flushall()
    with redis.Redis.from_url(nodes[0].url) as client:
        yield client


@pytest.fixture
def proxy(node: redis.Redis, nodes: tuple[EmbeddedValkey, EmbeddedValkey]) -> Iterator[RedisProxy]:
    """The way to the first node."""
    made = RedisProxy(nodes[0].url)
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
