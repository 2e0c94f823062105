import gzip
import tracemalloc

import pytest

from tests.integration.providers.callers import REPOSITORY, always, calling
from tests.web_server import Written
from worker_app import errors
from worker_app.gate.signals import Kind
from worker_app.providers.client import Request

pytestmark = pytest.mark.integration

MEGABYTE = 2**20
BOUND = "sent a body of more than 1048576 bytes, the most that is taken"
CUT = "closed the connection in the middle of its answer"
ZIPPED = {"Content-Encoding": "gzip"}
HTML = b"<!DOCTYPE html>\n<title>Sign in</title>\x1b[31m\x00" + b"some words " * 91


def test_html_where_json_is_due_is_a_fault_that_quotes_a_little() -> None:
    written = Written(body=HTML, headers={"Content-Type": "text/html; charset=utf-8"})
    with calling(always(written)) as caller, pytest.raises(errors.ProviderFault) as fault:
        caller.client.send(REPOSITORY)
    said = str(fault.value)
    where = f"github at 127.0.0.1:{caller.server.port} answered 200 with what is no JSON (text/html; charset=utf-8, 1045 bytes)"
    assert (
        said == f"{where} <!DOCTYPE html> <title>Sign in</title> [31m {'some words ' * 8}"[: len(where) + 121].rstrip()
    )
    assert said.isprintable()
    assert fault.value.status == 200
    assert caller.gate.kinds == [Kind.OK]


def test_json_that_is_broken_is_not_quoted() -> None:
    broken = Written(201, b'{"token": "short"', {"Content-Type": "text/plain"})
    with calling(always(broken)) as caller, pytest.raises(errors.ProviderFault) as fault:
        caller.client.send(Request("installation.token", "/t", document={}))
    assert str(fault.value).endswith("with what is no JSON (text/plain, 17 bytes)")


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"a": NaN}', b"[" * 100_000, b"\xff\xfe\xff", b"1" * 5000], ids=lambda body: repr(body[:10])
)
def test_what_is_no_json_is_a_fault(body: bytes) -> None:
    with calling(always(Written(body=body))) as caller, pytest.raises(errors.ProviderFault, match="no JSON"):
        caller.client.send(REPOSITORY)


@pytest.mark.parametrize(("status", "body"), [(404, HTML), (403, b"Retry later"), (202, b""), (410, b"")])
def test_where_no_json_is_due_there_is_no_document(status: int, body: bytes) -> None:
    with calling(always(Written(status, body))) as caller:
        answer = caller.client.send(REPOSITORY)
    assert (answer.status, answer.body, answer.document) == (status, body, None)


def test_a_compressed_answer_is_decompressed() -> None:
    with calling(always(Written(body=gzip.compress(b'{"a": 1}'), headers=ZIPPED))) as caller:
        answer = caller.client.send(REPOSITORY)
    assert caller.server.seen[0].headers["Accept-Encoding"] == "gzip"
    assert answer.document == {"a": 1}


def test_a_body_above_the_bound_is_a_fault_that_names_it() -> None:
    big, refused = Written(body=b'"' + b"a" * MEGABYTE + b'"'), pytest.raises(errors.ProviderFault, match=BOUND)
    with calling(always(big), session={"most_body_bytes": MEGABYTE}) as caller, refused:
        caller.client.send(REPOSITORY)
    assert caller.gate.kinds == [Kind.OK]


def test_a_body_at_the_bound_is_taken() -> None:
    body = b'"' + b"a" * (MEGABYTE - 2) + b'"'
    with calling(always(Written(body=body)), session={"most_body_bytes": MEGABYTE}) as caller:
        assert caller.client.send(REPOSITORY).body == body


@pytest.mark.parametrize("layers", [1, 2])
def test_a_small_body_that_grows_beyond_the_bound_takes_no_memory(layers: int) -> None:
    bomb = bytes(128 * MEGABYTE)
    for _ in range(layers):
        bomb = gzip.compress(bomb)
    written = Written(body=bomb, headers={"Content-Encoding": ", ".join(["gzip"] * layers)})
    with calling(always(written), session={"most_body_bytes": MEGABYTE}) as caller:
        tracemalloc.start()
        try:
            with pytest.raises(errors.ProviderFault, match=BOUND):
                caller.client.send(REPOSITORY)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 8 * MEGABYTE


def test_a_body_that_cannot_be_decompressed_is_a_fault() -> None:
    written = Written(body=b"abc", headers=ZIPPED)
    with calling(always(written)) as caller, pytest.raises(errors.ProviderFault, match="cannot be decompressed"):
        caller.client.send(REPOSITORY)


CHUNKED = {"Transfer-Encoding": "chunked"}
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "written",
    [
        Written(body=b"[1, 2", length=500, is_last=True),
        Written(body=gzip.compress(b"[1]")[:-9], length=500, headers=ZIPPED, is_last=True),
        Written(head=[HEAD], body=b"5\r\n[1, 2\r\n", is_last=True),
        Written(head=[HEAD], body=b"5\r\n[1,", is_last=True),
        Written(head=[HEAD], body=b"zz\r\n[1,", is_last=True),
    ],
    ids=["shorter than stated", "compressed", "no last chunk", "in a chunk", "no chunk"],
)
def test_a_body_that_is_cut_is_a_fault(written: Written) -> None:
    with calling(always(written)) as caller, pytest.raises(errors.ProviderFault, match=CUT) as fault:
        caller.client.send(REPOSITORY)
    assert fault.value.status == 200
    assert caller.gate.kinds == [Kind.OK], "the head came in, so the request counts"


def test_a_body_longer_than_stated_does_not_reach_the_next_answer() -> None:
    replies = iter([Written(body=b"[1][9]", length=3), Written(body=b"[2]")])
    with calling(lambda _: next(replies)) as caller:
        assert [caller.client.send(REPOSITORY).document for _ in range(2)] == [[1], [2]]


def test_a_whole_chunked_body_is_read() -> None:
    with calling(always(Written(head=[HEAD], body=b"2\r\n[1\r\n1\r\n]\r\n0\r\n\r\n"))) as caller:
        assert [caller.client.send(REPOSITORY).document for _ in range(2)] == [[1], [1]]
    assert caller.server.connections == 1
