"""A real browser for tests: Chromium without a window, told what to do through its DevTools protocol over two pipes.

No port and no websocket: it reads commands from its descriptor 3 and answers on its descriptor 4, each message ended by a zero.
Page: https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

DEADLINE = 20.0
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe",
)  # fmt: skip
# Becomes the browser, with the two ends of the pipes at 3 and 4; a copy above first, so that neither end is overwritten.
PIPED = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for at, end in enumerate(ends, 3):
    os.dup2(end, at)
    os.close(end)
os.execv(sys.argv[3], sys.argv[3:])
"""


def refuse(reason: str) -> None:
    """Skip this test, or fail it where CI=true, with the reason."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def program() -> str:
    """The browser on PATH; skips where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        refuse("no Chromium is installed")
    return str(found)


@dataclass
class Browser:
    """One process and what it has said."""

    to: int
    of: int
    number: int = 0
    rest: bytes = b""
    events: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, method: str, session: str | None = None, **given: Any) -> Any:
        """The result of a command. Raises AssertionError with what the browser says against it."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": given}
        if session is not None:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read(method)
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, event: str, session: str) -> None:
        """Return when the page has told this event, which is then forgotten."""
        while True:
            for item in self.events:
                if (item["method"], item.get("sessionId")) == (event, session):
                    self.events.remove(item)
                    return
            self.events.append(self._read(event))

    def _read(self, what: str) -> dict[str, Any]:
        until = time.monotonic() + DEADLINE
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.of], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"the browser does not answer {what}"
            part = os.read(self.of, 1 << 16)
            assert part, f"the browser has ended before {what}"
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@dataclass(frozen=True)
class Tab:
    """One page of a browser."""

    browser: Browser
    session: str

    def tell(self, method: str, **given: Any) -> Any:
        """The result of a command to this page."""
        return self.browser.tell(method, self.session, **given)

    def show(self, width: int, height: int, scheme: str = "light") -> None:
        """Be so large, in CSS pixels, and light or dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.tell("Emulation.setDeviceMetricsOverride", **size)
        self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url: str) -> None:
        """Go to an address and wait until it is drawn."""
        self.browser.events.clear()
        assert "errorText" not in self.tell("Page.navigate", url=url)
        self.browser.wait_for("Page.loadEventFired", self.session)

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        answer = self.tell("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def focus(self, selector: str) -> None:
        """Give an element the focus, without a script."""
        root = self.tell("DOM.getDocument")["root"]["nodeId"]
        self.tell("DOM.focus", nodeId=self.tell("DOM.querySelector", nodeId=root, selector=selector)["nodeId"])

    def drawn(self) -> None:
        """Return after the page was drawn twice: then it has done what it does for the first one, as giving the focus."""
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def picture(self, path: Path) -> None:
        """Write the whole page as a PNG, as long as it is."""
        shot = self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def running(folder: Path) -> Iterator[Browser]:
    """A browser that keeps what it writes in `folder`."""
    (read_ours, write_theirs), (read_theirs, write_ours) = os.pipe(), os.pipe()
    command = [sys.executable, "-c", PIPED, str(read_theirs), str(write_theirs), program(), *FLAGS]
    command += [f"--user-data-dir={folder / 'profile'}", "about:blank"]
    with (folder / "browser.log").open("wb") as log:
        process = subprocess.Popen(
            command, pass_fds=(read_theirs, write_theirs), stdout=log, stderr=log, start_new_session=True
        )
    os.close(read_theirs)
    os.close(write_theirs)
    try:
        yield Browser(write_ours, read_ours)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=DEADLINE)
        os.close(write_ours)
        os.close(read_ours)


@contextmanager
def tab(browser: Browser) -> Iterator[Tab]:
    """A page that knows no cookie of any other."""
    context = browser.tell("Target.createBrowserContext")["browserContextId"]
    target = browser.tell("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
    page = Tab(browser, browser.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
    for domain in ("Page", "DOM"):
        page.tell(f"{domain}.enable")
    yield page
    browser.tell("Target.disposeBrowserContext", browserContextId=context)
