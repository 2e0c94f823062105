import base64

import pytest

from worker_app import key_ring

GOOD = base64.b64encode(bytes(range(7, 200, 6))[:31] + b"\xff").decode()


def encoded(key: bytes) -> str:
    return base64.b64encode(key).decode()


def fault_of(text: str) -> str:
    with pytest.raises(ValueError, match="Make a key with") as caught:
        key_ring.parse(text)
    return str(caught.value).partition(". Make a key")[0]


def test_first_key_writes_and_all_read() -> None:
    one, two = key_ring.generate("k1"), key_ring.generate("k2")
    ring = key_ring.parse(f"{two}, {one}\n")
    assert ring.writes == "k2"
    assert [len(key) for key in ring.keys.values()] == [32, 32]
    assert list(ring.keys) == ["k2", "k1"]


def test_generated_rings_differ() -> None:
    assert key_ring.generate() != key_ring.generate()
    assert key_ring.parse(key_ring.generate()).writes == "k1"


def test_repr_shows_no_key() -> None:
    ring = key_ring.parse(key_ring.generate())
    assert repr(ring) == "KeyRing()"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("k1:", "k1 has no key behind its id and a colon"),
        ("k1:hello world", "k1 is not base64"),
        ("k1:aGVsbG8=", "k1 has 5 bytes instead of 32"),
        (f"k1:{encoded(bytes(64))}", "k1 has 64 bytes instead of 32"),
        (f"k1:{encoded(bytes(32))}", "k1 is a pattern"),
        (f"k1:{encoded(bytes(range(32)))}", "k1 is a pattern"),
        (f"k1:{encoded(b'abcd' * 8)}", "k1 is a pattern"),
        (f"k1:{encoded(b'correct-horse-battery-staple-123')}", "k1 is readable text"),
        (GOOD, "entry 1 has no id"),
        (f":{GOOD}", "entry 1 has no id"),
        (f"K1:{GOOD}", "entry 1 has no id"),
        (f"{GOOD}:k1", "entry 1 has no id"),
    ],
)
def test_key_that_is_none_is_refused_by_its_id(text: str, words: str) -> None:
    assert words in fault_of(text)


def test_repeated_ids_and_keys_are_refused() -> None:
    key = key_ring.generate("k1")
    assert "k1 is there twice" in fault_of(f"{key},{key_ring.generate('k1')}")
    assert "k2 is the same key as another one" in fault_of(f"{key},k2:{key.partition(':')[2]}")


def test_every_fault_comes_out_in_one_line_without_a_key() -> None:
    message = fault_of(f"k1:aGVsbG8=,{GOOD},k3:{encoded(bytes(32))},")
    assert message == (
        "k1 has 5 bytes instead of 32; entry 2 has no id before a colon, such as k1; k3 is a pattern: it was not made by a "
        "random generator; entry 4 has no id before a colon, such as k1"
    )
    assert GOOD not in message


def test_random_keys_are_never_refused() -> None:
    for _ in range(2000):
        key_ring.parse(key_ring.generate())
