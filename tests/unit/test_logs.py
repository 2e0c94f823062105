"""Logs as a process writes them: each test runs one, since logging is the process's own."""

import json
import subprocess
import sys

import pytest

CANARY = "Zq8f3a+kn4ry/41~7kxOp"
BEGIN = f"""
import logging, sys, threading
import structlog
from worker_app import logs
from worker_app.secret import Secret
held = Secret({CANARY!r})
token = held.reveal()
logs.configure("INFO", sys.argv[1])
log, foreign = structlog.get_logger("ours"), logging.getLogger("foreign")
class Wrapped:
    def __repr__(self):
        return "Wrapped(" + token + ")"
def fail(word):
    local = [word]
    raise ValueError("failed with " + word)
def fall():
    try:
        fail(token)
    except ValueError as error:
        raise RuntimeError("because of " + token) from error
"""


def written(program: str, form: str = "json", code: int = 0) -> str:
    """What a process writes that runs `program`; it must not hold the canary, nor the names of local variables."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program, form], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert CANARY not in done.stderr
    assert "***" in done.stderr
    return done.stderr


EVERY = """
tree = {"headers": {"Authorization": "Bearer " + token}}
log.warning("said " + token, token=token, tree=tree, other=Wrapped(), held=held, number=7)
foreign.warning("sent %s and %r", token, {"a": Wrapped()})
foreign.warning(Wrapped())
"""


def test_json_holds_no_secret_in_any_value() -> None:
    ours, *foreign = [json.loads(line) for line in written(EVERY).splitlines()]
    assert ours["event"] == "said ***"
    assert ours["tree"] == {"headers": {"Authorization": "***"}}
    assert (ours["token"], ours["other"], ours["held"], ours["number"]) == ("***", "Wrapped(***)", "Secret(***)", 7)
    assert [line["event"] for line in foreign] == ["sent *** and {'a': Wrapped(***)}", "Wrapped(***)"]


def test_text_holds_no_secret_in_any_value() -> None:
    shown = written(EVERY, "text")
    assert "said ***" in shown
    assert "sent *** and {'a': Wrapped(***)}" in shown


FAULTS = """
try:
    fall()
except RuntimeError:
    log.exception("ours.failed")
    foreign.exception("theirs failed")
    foreign.warning("with stack", stack_info=True)
"""


@pytest.mark.parametrize("form", ["json", "text"])
def test_traceback_holds_no_secret_and_no_variables(form: str) -> None:
    shown = written(FAULTS, form)
    assert shown.count("failed with ***") == shown.count("because of ***") == 2
    assert "local = " not in shown
    assert "locals" not in shown


def test_record_that_cannot_be_written_is_told_without_its_arguments() -> None:
    shown = written('foreign.warning("%d and " + token, token)\nlog.info("after " + token)')
    assert "cannot be written" in shown
    assert "after ***" in shown


ENDS = {
    "uncaught": ("fall()", 1, "RuntimeError: because of ***"),
    "thread": (
        "one = threading.Thread(target=fail, args=(token,), name='a-thread')\none.start()\none.join()",
        0,
        "Exception in thread a-thread",
    ),
    "unraisable": (
        "class Dying:\n    def __del__(self):\n        fail(token)\nDying()",
        0,
        "Exception ignored in",
    ),
}


@pytest.mark.parametrize("way", ENDS)
def test_fault_that_nobody_caught_is_written_without_the_secret(way: str) -> None:
    program, code, expected = ENDS[way]
    shown = written(program, code=code)
    assert expected in shown
    assert "ValueError: failed with ***" in shown


def test_fault_of_a_greenlet_is_written_without_the_secret() -> None:
    program = "import gevent\nlogs.redact_hub(gevent.get_hub())\ngevent.spawn(fail, token).join()"
    shown = written(program)
    assert "ValueError: failed with ***" in shown


def test_what_holds_no_secret_is_written_as_it_is() -> None:
    program = 'log.info("one", batch_id="6f2c", when=None, share=0.5, found=(1, "a"))\nlog.info(token)'
    first, _ = [json.loads(line) for line in written(program).splitlines()]
    assert {name: first[name] for name in ("event", "batch_id", "when", "share", "found")} == {
        "event": "one",
        "batch_id": "6f2c",
        "when": None,
        "share": 0.5,
        "found": [1, "a"],
    }
