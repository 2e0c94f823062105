"""The gate as somebody else uses it: the example of the how-to, run as it stands there."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from tests.web_server import Seen, WebServer, Written
from worker_app import errors
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey

pytestmark = pytest.mark.integration
PAGE = Path("docs/howto/use-the-gate.md")
LEFT = {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "4999", "X-RateLimit-Resource": "core"}
SECONDARY = Written(
    403, json.dumps({"message": "You have exceeded a secondary rate limit"}).encode(), {"Retry-After": "58"}
)


def example(checkout: Path) -> str:
    """The code that the page shows."""
    (found,) = re.findall(r"^```python\n(.*?)^```$", (checkout / PAGE).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture
def asking(checkout: Path, redis_url: str) -> Iterator[Any]:
    """The module of the page, with the test's Redis in place of the one it names."""
    text = example(checkout)
    assert text.count("redis://localhost:6379/0") == 1
    module: dict[str, Any] = {"__name__": "asking"}
    exec(compile(text.replace("redis://localhost:6379/0", redis_url), str(PAGE), "exec"), module)
    yield SimpleNamespace(**module)
    module["gate"].close()


@pytest.fixture
def serving() -> Iterator[Callable[[Callable[[Seen], Written]], WebServer]]:
    running: list[Any] = []

    def serve(respond: Callable[[Seen], Written]) -> WebServer:
        running.append(WebServer(respond).running())
        server: WebServer = running[-1].__enter__()
        return server

    yield serve
    for one in running:
        one.__exit__(None, None, None)


def test_example_is_twenty_lines(checkout: Path) -> None:
    lines = [
        line for line in example(checkout).splitlines() if line.strip() and not line.startswith(("import", "from"))
    ]
    assert len(lines) <= 20


def test_example_asks_until_it_is_refused_and_then_sends_nothing(asking: Any, serving: Any, redis_url: str) -> None:
    said = [Written(body=b'{"full_name": "acme/api"}', headers=LEFT), SECONDARY]
    server = serving(lambda _: said.pop(0))
    answer: requests.Response = asking.ask(server.url, "repos.get")
    assert answer.json()["full_name"] == "acme/api"
    with pytest.raises(errors.RateLimited, match="secondary rate limit") as refused:
        asking.ask(server.url, "repos.get")
    assert 58 < refused.value.retry_in <= 59
    with pytest.raises(errors.RateLimited, match="may not be called for") as known:
        asking.ask(server.url, "issues.list")
    assert 55 < known.value.retry_in <= 61
    assert len(server.seen) == 2
    another_process = Gate.from_url(redis_url)
    assert not another_process.check(GateKey("github", "acme", "github.com")).allowed
    another_process.close()


def test_example_learns_what_is_left(asking: Any, serving: Any) -> None:
    server = serving(lambda _: Written(headers=LEFT | {"X-RateLimit-Remaining": "3000"}))
    asking.ask(server.url, "repos.get")
    with asking.gate.slot(asking.key, "repos.get") as permit:
        assert permit.remaining == 3000


def test_request_that_fails_closes_nothing(asking: Any) -> None:
    with pytest.raises(requests.ConnectionError):
        asking.ask("http://127.0.0.1:1", "repos.get")
    assert asking.gate.check(asking.key).allowed


def test_gate_needs_no_settings_no_store_and_no_celery() -> None:
    code = (
        "import sys; from worker_app.gate import gate; "
        "print(sorted({name.split('.')[1] for name in sys.modules if name.startswith('worker_app.')})); "
        "print(sorted({'celery', 'sqlalchemy', 'gevent', 'pydantic', 'flask'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=25, check=True)
    assert done.stdout.splitlines() == ["['errors', 'gate']", "[]"]
