import inspect
from dataclasses import dataclass
from datetime import date
from uuid import UUID, uuid4

import pytest
from celery import signature

from worker_app import errors, message_guard, queues, tasks
from worker_app.message_guard import ARGUMENTS, PREFIX, Kind
from worker_app.secret import Secret

RUN = {"run_id": str(uuid4())}
SYNC = PREFIX + "dispatch_sync_run"
TOKEN = "ghp_" + "c4n4ry" * 6


@dataclass(frozen=True)
class Holder:
    token: Secret


def refused(task: str, args: object = (), kwargs: object = None, **options: object) -> errors.UnsafeMessage:
    """The refusal of a message; none of them may show a value."""
    with pytest.raises(errors.UnsafeMessage) as caught:
        message_guard.check(task, args, kwargs, options)
    assert TOKEN not in str(caught.value)
    return caught.value


def test_every_task_declares_the_arguments_that_it_takes() -> None:
    registered = {
        task.name.removeprefix(PREFIX): dict(inspect.signature(task.run).parameters)
        for task in vars(tasks).values()
        if str(getattr(task, "name", "")).startswith(PREFIX)
    }
    assert {task: set(given) for task, given in registered.items()} == {task: set(of) for task, of in ARGUMENTS.items()}
    assert set(ARGUMENTS) == set(queues.TASK_QUEUES)
    for task, given in registered.items():
        for name, item in given.items():
            assert item.kind is inspect.Parameter.KEYWORD_ONLY, (task, name)
            assert item.annotation is {Kind.INT: int, Kind.UUID: str, Kind.DATE: str}[ARGUMENTS[task][name]], (
                task,
                name,
            )


def test_declared_arguments_pass() -> None:
    message_guard.check(SYNC, (), RUN)
    message_guard.check(SYNC, None, None)
    message_guard.check(PREFIX + "rescue", [], {"epoch": 7}, {"countdown": 3.5, "headers": {"enqueued_at": 1.0}})


def test_undeclared_argument_is_refused_by_name_alone() -> None:
    error = refused(SYNC, (), {**RUN, "token": TOKEN})
    assert (error.task, error.key) == (SYNC, "kwargs.token")
    assert "run_id" in str(error)


def test_name_of_an_argument_may_be_the_secret() -> None:
    refused(SYNC, (), {TOKEN: 1})
    refused("shop.tasks.pay", (), {TOKEN: 1})


def test_task_name_may_be_the_secret() -> None:
    refused(f"shop.{TOKEN}")
    refused(PREFIX + TOKEN)


@pytest.mark.parametrize(
    ("task", "name", "value"),
    [
        ("dispatch_sync_run", "run_id", TOKEN),
        ("dispatch_sync_run", "run_id", "6F2C0C5E-6C0B-5D0E-9F0D-3A4A1F7B9C11"),
        ("dispatch_sync_run", "run_id", "{6f2c0c5e-6c0b-5d0e-9f0d-3a4a1f7b9c11}"),
        ("dispatch_sync_run", "run_id", UUID(int=7)),
        ("dispatch_sync_run", "run_id", None),
        ("dispatch_sync_run", "run_id", [RUN["run_id"]]),
        ("dispatch_sync_run", "run_id", Secret(TOKEN)),
        ("rescue", "epoch", True),
        ("rescue", "epoch", "7"),
        ("rescue", "epoch", 7.0),
    ],
)
def test_argument_of_another_type_is_refused(task: str, name: str, value: object) -> None:
    assert refused(PREFIX + task, (), {name: value}).key == f"kwargs.{name}"


def test_dates_are_declared_as_they_stand_in_json() -> None:
    is_date = message_guard._IS_OF[Kind.DATE]
    assert is_date("2026-11-30")
    assert [value for value in ("20261130", "2026-11-30T00:00", date(2026, 11, 30), 7) if is_date(value)] == []


def test_positions_are_refused() -> None:
    assert refused(SYNC, (RUN["run_id"],)).key == "args"
    assert refused(SYNC, (), [("run_id", 1)]).key == "kwargs"


def test_task_of_ours_that_nobody_declared_is_refused() -> None:
    assert refused(PREFIX + "typo", (), {}).key == "name"


@pytest.mark.parametrize(
    "content",
    [
        Secret(TOKEN), [Secret(TOKEN)], {"a": {"b": (1, Secret(TOKEN))}}, Holder(Secret(TOKEN)), {"a": [Holder(Secret("x"))]},
        TOKEN, f"use {TOKEN} now", TOKEN.encode(), bytearray(TOKEN.encode()), {"a": [{"b": TOKEN}]}, {TOKEN: 1}, {"a", TOKEN},
        "https://user:password@example.org/", {"h": "Authorization: Bearer abc"}, ValueError(TOKEN),
        "-----BEGIN RSA PRIVATE KEY-----\nMII",
    ],
)  # fmt: skip
def test_secret_at_any_depth_of_a_foreign_task_is_refused(content: object) -> None:
    for task in ("shop.tasks.pay", "celery.backend_cleanup"):
        refused(task, (content,))
        refused(task, (), {"given": content})
        refused(task, headers={"given": content})
    refused(SYNC, (), RUN, headers={"given": content})


def test_living_secret_without_a_shape_is_found() -> None:
    held = Secret("correct horse battery")
    assert refused("shop.tasks.pay", ("it is correct horse battery",)).key == "args.0"
    del held
    message_guard.check("shop.tasks.pay", ("it is correct horse battery",))


def test_ordinary_foreign_message_passes() -> None:
    message_guard.check("shop.tasks.pay", (1, "two", None, {"a": [b"x", 2.5]}), {"id": uuid4(), "on": date(2026, 1, 1)})


def test_ring_ends() -> None:
    ring: list[object] = [1]
    ring.append(ring)
    message_guard.check("shop.tasks.pay", (ring,))
    ring.append(TOKEN)
    refused("shop.tasks.pay", (ring,))


def test_signature_in_a_message_is_held_to_the_same() -> None:
    sound = signature(SYNC, kwargs=RUN, immutable=True)
    message_guard.check("shop.tasks.pay", (), {}, {"link": sound, "chain": [sound], "chord": dict(sound)})
    for unsound in (signature(SYNC, args=(1,)), signature(SYNC, kwargs={"token": 1}), signature("a.b", args=(TOKEN,))):
        for carrier in ("link", "link_error", "chain", "chord"):
            refused("shop.tasks.pay", (), {}, **{carrier: [unsound]})
