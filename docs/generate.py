"""Writes the parts of the reference pages that the code knows itself: `make docs` runs this file.

A page is written by hand; what stands between `<!-- generated: NAME -->` and `<!-- end -->` comes from here.
tests/unit/test_docs.py holds the pages against it, so a page that says what the code no longer does fails the check.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from celery import Task
from prometheus_client import Counter, Gauge, Histogram
from pydantic import SecretStr

import celery_utils
from worker_app import beat, queues, settings, tasks, telemetry
from worker_app.cli.main import cli
from worker_app.providers import registry

DOCS = Path(__file__).resolve().parent
TOP = DOCS.parent
BLOCK = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
KINDS = {str: "text", int: "number", bool: "true, false", SecretStr: "secret", Path: "path"}
UNSET = ("", "()", "None")
PROCESSES = {"worker": telemetry.WORKER, "beat": telemetry.BEAT, "api": telemetry.EXPORTER}


def render(page: str) -> str:
    """`page` with each generated part as the code gives it now."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{GENERATORS[found['name']]().strip()}\n\n{found[3]}", page)


def pages() -> Iterator[Path]:
    """Every page that has a generated part."""
    return (path for path in sorted(DOCS.rglob("*.md")) if BLOCK.search(path.read_text(encoding="utf-8")))


def table(head: str, *rows: tuple[object, ...]) -> str:
    """A table; `head` holds the headings, separated by bars."""
    columns = head.split("|")
    lines = [columns, ["---"] * len(columns), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def code(text: object) -> str:
    """Text set as code; a dash for none."""
    return "–" if str(text) in UNSET else f"`{text}`"


@cache
def _sources() -> dict[str, str]:
    """Every module of the program, by its name below `worker_app`, and its text."""
    top = TOP / "worker_app"
    found = {path.relative_to(top): path.read_text(encoding="utf-8") for path in sorted(top.rglob("*.py"))}
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): text for path, text in found.items()}


def _readers(pattern: str) -> list[str]:
    wanted = re.compile(pattern)
    return [name for name, text in _sources().items() if wanted.search(text)]


def _settings(*, is_read: bool) -> str:
    rows = []
    for name, field in settings.Settings.model_fields.items():
        if bool(_readers(rf"\.{name}\b")) is not is_read:
            continue
        default = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
        shown = str(default).lower() if isinstance(default, bool) else default
        rows.append((code(name.upper()), code(shown), _values(field.annotation), field.description))
    return table("name|default|value|meaning", *rows)


def _values(annotation: Any) -> str:
    """What a setting may be, in words."""
    origin, parts = get_origin(annotation), [part for part in get_args(annotation) if part is not NoneType]
    if origin is Literal:
        return ", ".join(code(part) for part in parts)
    if origin in (Annotated, Union, UnionType):
        return _values(parts[0])
    if origin is tuple:
        return "`max,min`" if parts == [int, int] else "list"
    return KINDS[annotation]


def _telemetry() -> str:
    owners = {metric.name: process for process, registry in PROCESSES.items() for metric in registry.collect()}
    constants = {
        next(iter(item.describe())).name: constant
        for constant, item in vars(telemetry).items()
        if isinstance(item, Counter | Gauge | Histogram)
    }
    rows = []
    for name, kind, meaning, labels in telemetry.table():
        plain = name.removesuffix("_total")
        is_set = bool(_readers(rf"\btelemetry\.{constants[plain]}\b"))
        shown = ", ".join(code(label) for label in labels) or "–"
        rows.append((code(name), kind, shown, meaning, owners[plain] if is_set else "–"))
    return table("name|kind|labels|meaning|process", *rows)


def _every_task() -> list[Task]:
    return [item for item in vars(tasks).values() if isinstance(item, Task)]


def _queues() -> str:
    sent = {queue: task for task, queue in queues.TASK_QUEUES.items() if queue != "sync.git"}
    sent |= {queues.provider_queue(provider): "run_sync_batch" for provider in registry.PROVIDERS}
    known = {_short(task) for task in _every_task()}
    by_queue = {
        queue: [task for task, to in queues.TASK_QUEUES.items() if to == queue and task in known]
        for queue in queues.ALL_QUEUES
    }
    by_queue |= {queue: ["run_sync_batch"] for queue, task in sent.items() if task == "run_sync_batch"}
    rows = [
        (code(queue), code(queues.fleet_of(queue)), ", ".join(code(task) for task in found) or "–")
        for queue, found in by_queue.items()
    ]
    return table("queue|fleet|tasks that we send there", *rows)


def _short(task: Task) -> str:
    return str(task.name).rpartition(".")[2]


def _tasks() -> str:
    rows = [
        (
            code(task.name),
            code(queues.TASK_QUEUES[_short(task)]),
            ", ".join(code(name) for name in inspect.signature(task.run).parameters),
            _first_line(task.__doc__),
        )
        for task in _every_task()
    ]
    return table("task|queue|arguments|what it does", *rows)


def _periodic() -> str:
    every = beat.periodic_table(settings.Settings.model_validate({}))
    return table("task|every (seconds)", *((code(task), f"{seconds:g}") for task, seconds in every.items()))


def _profile() -> str:
    source = inspect.getsource(settings.Settings.profile.fget)  # type: ignore[attr-defined]
    names = dict(re.findall(r"(\w+)=self\.(\w+)", source))
    rows = [
        (
            code(field.name),
            code(names.get(field.name, "").upper()),
            code(field.metadata["celery"]),
            code(field.default),
            field.metadata["gevent"],
            field.metadata["prevents"],
            f"[page]({field.metadata['source']})",
        )
        for field in dataclasses.fields(celery_utils.PerformanceProfile)
    ]
    return table("field|environment|Celery's name|default|gevent honours|prevents|source", *rows)


def _fixed() -> str:
    return table(
        "Celery's name|value", *((code(name), f"`{value}`") for name, value in celery_utils.FIXED_SETTINGS.items())
    )


def _cli() -> str:
    return "\n\n".join(_commands(cli, click.Context(cli, info_name="dev-hops")))


def _commands(group: click.Group, above: click.Context) -> Iterator[str]:
    for name, command in group.commands.items():
        context = click.Context(command, info_name=name, parent=above)
        if isinstance(command, click.Group):
            yield f"## {context.command_path}\n\n{_help(command)}"
            yield from _commands(command, context)
        else:
            level = "##" if above.parent is None else "###"
            usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
            parts = [
                f"{level} {context.command_path}",
                f"```text\n{usage}\n```",
                _help(command),
                _options(command, context),
            ]
            yield "\n\n".join(part for part in parts if part)


def _help(command: click.Command) -> str:
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(command.help or "").split("\n\n"))


def _options(command: click.Command, context: click.Context) -> str:
    rows = []
    for item in command.params:
        if isinstance(item, click.Option) and item.name != "as_json":  # every verb has it: the page says so once
            value = "" if item.is_flag else f" {item.make_metavar(context)}"
            default = code(item.get_default(context)) if item.show_default else "–"
            rows.append((code(f"{', '.join(item.opts)}{value}"), "required" if item.required else default, item.help))
    return table("option|default|meaning", *rows) if rows else ""


def _first_line(text: str | None) -> str:
    return inspect.cleandoc(text or "").splitlines()[0]


GENERATORS: dict[str, Callable[[], str]] = {
    "settings": lambda: _settings(is_read=True),
    "settings-unread": lambda: _settings(is_read=False),
    "telemetry": _telemetry,
    "queues": _queues,
    "tasks": _tasks,
    "periodic": _periodic,
    "profile": _profile,
    "fixed": _fixed,
    "cli": _cli,
}


def main() -> None:
    """Write every page anew that is not as the code says."""
    for path in pages():
        page = path.read_text(encoding="utf-8")
        if (new := render(page)) != page:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
