import threading
from collections.abc import Mapping

import pytest
from requests.structures import CaseInsensitiveDict

from worker_app.gate.key import GateKey
from worker_app.providers.http_cache import ENTRY_BYTES, Address, Cache, Stored

KEY = GateKey("github", "org-1", "github.com")


def address(url: str, *, org_id: str = "org-1", generation: str = "1") -> Address:
    return Address(GateKey("github", org_id, "github.com"), generation, "GET", url)


def stored(size: int = 10, headers: Mapping[str, str] = {"ETag": '"1"'}) -> Stored:
    return Stored(CaseInsensitiveDict(headers), b"x" * size)


def test_an_entry_belongs_to_one_organisation_and_one_generation() -> None:
    cache = Cache()
    cache.put(address("/a"), stored())
    assert cache.get(address("/a")) is not None
    assert cache.get(address("/a", org_id="org-2")) is None
    assert cache.get(address("/a", generation="2")) is None
    assert cache.get(address("/b")) is None


def test_the_entry_used_least_recently_goes_first() -> None:
    cache = Cache(most_entries=2)
    cache.put(address("/a"), stored())
    cache.put(address("/b"), stored())
    cache.get(address("/a"))
    cache.put(address("/c"), stored())
    assert [cache.get(address(url)) is not None for url in ("/a", "/b", "/c")] == [True, False, True]


def test_the_entries_stay_below_the_bound() -> None:
    cache = Cache(most_bytes=10_000)
    for number in range(50):
        cache.put(address(f"/{number}"), stored(1_000))
        assert cache.size_bytes <= 10_000
    assert len(cache) == 10_000 // (1_000 + ENTRY_BYTES + len('ETag"1"'))
    assert cache.get(address("/49")) is not None


def test_what_is_too_big_is_not_kept_and_removes_what_it_replaces() -> None:
    cache = Cache(most_bytes=2_000)
    cache.put(address("/a"), stored(100))
    cache.put(address("/b"), stored(100))
    cache.put(address("/a"), stored(5_000))
    assert cache.get(address("/a")) is None
    assert cache.get(address("/b")) is not None
    cache.put(address("/b"), stored(50))
    assert cache.size_bytes == stored(50).size_bytes


@pytest.mark.parametrize(
    ("headers", "condition"),
    [
        ({"etag": 'W/"1"'}, {"If-None-Match": 'W/"1"'}),
        ({"Last-Modified": "yesterday"}, {"If-Modified-Since": "yesterday"}),
        ({"ETag": '"1"', "last-modified": "t"}, {"If-None-Match": '"1"', "If-Modified-Since": "t"}),
        ({"ETag": ""}, {}),
    ],
)
def test_a_condition_names_what_the_provider_gave(headers: dict[str, str], condition: dict[str, str]) -> None:
    assert stored(headers=headers).condition == condition
    assert stored(headers=headers).may_be_kept is bool(condition)


def test_what_must_not_be_stored_is_not_kept() -> None:
    cache = Cache()
    cache.put(address("/a"), Stored(CaseInsensitiveDict({"ETag": '"1"', "Cache-Control": "private, No-Store"}), b"1"))
    assert len(cache) == 0


def test_a_304_renews_the_headers_but_not_those_of_the_body() -> None:
    kept = {"ETag": '"1"', "Date": "old", "Link": "old", "Content-Type": "application/json", "Content-Length": "10"}
    old = stored(headers=kept)
    fresh = {"date": "new", "content-length": "0", "Content-Type": "text/plain", "X-RateLimit-Remaining": "7"}
    assert old.refreshed(fresh) == CaseInsensitiveDict({**kept, "Date": "new", "X-RateLimit-Remaining": "7"})
    assert old.headers["Date"] == "old"


def test_many_at_once_keep_the_sum_true() -> None:
    cache = Cache(most_bytes=20_000)
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait(5)
        for step in range(300):
            cache.put(address(f"/{(number * 7 + step) % 30}"), stored(step))
            cache.get(address(f"/{step % 30}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    kept = [entry for number in range(30) if (entry := cache.get(address(f"/{number}")))]
    assert cache.size_bytes == sum(entry.size_bytes for entry in kept) <= 20_000
    assert len(cache) == len(kept)


def test_a_stored_reply_has_a_text_without_its_body() -> None:
    assert "xxxx" not in repr(stored(10))
