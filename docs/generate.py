"""Writes the parts of the reference pages that the code knows itself: `make docs` runs this file.

A page is written by hand; what stands between `<!-- generated: NAME -->` and `<!-- end -->` comes from here.
tests/unit/test_docs.py holds the pages against it, so a page that says what the code no longer does fails the check.
What stands after `<!-- measured: NAME -->` are figures of one machine and one day: they come from the report of the last
benchmark, where there is one, and no check compares them.
"""

import dataclasses
import inspect
import json
import re
import runpy
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from celery import Task
from prometheus_client import Counter, Gauge, Histogram
from pydantic import SecretStr

import celery_utils
from worker_app import beat, fleets, queues, settings, tasks, telemetry
from worker_app.cli.main import cli
from worker_app.gate.policies import POLICIES
from worker_app.gate.policy import BucketPolicy
from worker_app.providers import registry
from worker_app.worker import recycle

DOCS = Path(__file__).resolve().parent
TOP = DOCS.parent
BLOCK = re.compile(r"(<!-- (?P<kind>generated|measured): (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
PROMISES = DOCS / "promises.toml"
VALUES, SCHEMA = TOP / "helm" / "values.yaml", TOP / "helm" / "values.schema.json"
REPORT = TOP / "bench" / "results" / "profile.json"
KEEPERS = "worker_app/worker"
CLASSES = {"low": (10, 2), "normal": (20, 2), "high": (30, 10)}  # traffic of a fleet -> autoscale
KINDS = {str: "text", int: "number", bool: "true, false", SecretStr: "secret", Path: "path"}
UNSET = ("", "()", "None")
PROCESSES = {"worker": telemetry.WORKER, "beat": telemetry.BEAT, "api": telemetry.EXPORTER}


def render(page: str, report: Mapping[str, Any] | None = None) -> str:
    """`page` with each generated part as the code gives it now, and with a report the measured parts from that."""

    def part(found: re.Match[str]) -> str:
        if found["kind"] == "generated":
            text = GENERATORS[found["name"]]()
        else:
            rows = MEASURED[found["name"]]
            text = _measured(report, rows) if report else ""
        return f"{found[1]}\n{text.strip()}\n\n{found[4]}" if text else found[0]

    return BLOCK.sub(part, page)


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
        default = fleets.text_of(default) if isinstance(default, dict) else default
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
    if origin is dict:
        return "`name=queue,queue;name=queue`"
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
        (code(queue), code(fleet), ", ".join(code(task) for task in found) or "–")
        for queue, found in by_queue.items()
        for fleet in fleets.consuming(fleets.BUILT_IN, queue)
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


@cache
def _environment_names() -> dict[str, str]:
    """The name in the environment of each field of the profile that has one."""
    source = inspect.getsource(settings.Settings.profile.fget)  # type: ignore[attr-defined]
    return {field: name.upper() for field, name in re.findall(r"(\w+)=self\.(\w+)", source)}


def _profile() -> str:
    rows = [
        (
            code(field.name),
            code(_environment_names().get(field.name, "")),
            code(field.default),
            field.metadata["prevents"],
            f"[page]({field.metadata['source']})",
        )
        for field in dataclasses.fields(celery_utils.PerformanceProfile)
    ]
    return table("field|environment|default|prevents|source", *rows)


@cache
def promises() -> dict[str, list[dict[str, Any]]]:
    """What docs/promises.toml says: the promises that are a `field` of the profile, and those `beside` it."""
    return tomllib.loads(PROMISES.read_text(encoding="utf-8"))


def _promises() -> str:
    said = {entry["name"]: entry for entry in promises()["field"]}
    rows = []
    for field in dataclasses.fields(celery_utils.PerformanceProfile):
        names = (_environment_names().get(field.name, ""), field.metadata["celery"] or "")
        shown = ", ".join(code(name) for name in names if name) or code(field.name)
        rows.append((shown, *_promise(said[field.name], honoured=field.metadata["gevent"] == "yes")))
    return table("setting|promise|gevent|prefork|proof", *rows)


def _beside() -> str:
    rows = []
    for entry in promises()["beside"]:
        shown = ", ".join([entry["name"], *(code(name) for name in entry.get("settings", ()))])
        rows.append((shown, *_promise(entry, honoured=True)))
    return table("what happens|promise|gevent|prefork|proof", *rows)


def _promise(entry: Mapping[str, Any], *, honoured: bool) -> tuple[str, str, str, str]:
    keepers = ", ".join(f"[{name}](../../{KEEPERS}/{name}.py)" for name in entry.get("by", ()))
    own = f"kept by us: {keepers}" if keepers else "Celery's own" if honoured else ""
    gevent = "; ".join(part for part in (own, entry.get("gevent", "")) if part)
    proof = ", ".join(code(f"tests/{test}") for test in entry["proof"])
    return entry["says"], gevent, entry["prefork"], proof


def _classes() -> str:
    rows = []
    for name, (most, least) in CLASSES.items():
        profile = celery_utils.PerformanceProfile(autoscale=(most, least))
        memory_mb = recycle.BASE_MB + recycle.SLOT_MB * most
        rows.append(
            (
                name,
                code(f"{most},{least}"),
                f"{memory_mb} MB",
                f"{round(recycle.CONTAINER_SHARE * memory_mb)} MB",
                f"{recycle.most_bytes(None, most, limits=()) // 10**6} MB",
                f"{profile.max_tasks_per_child * profile.slots:,}",
                2 * profile.slots + 15,
                profile.sql_pool_size,
            )
        )
    return table(
        "traffic|`CELERY_AUTOSCALE`|memory to give|renewed above, in a container of that size|renewed above, without a limit|"
        "renewed after tasks|Redis clients|SQL connections",
        *rows,
    )


def _report() -> dict[str, Any] | None:
    """The report of the last full benchmark on this machine; None where there is none."""
    if not REPORT.exists():
        return None
    report: dict[str, Any] = json.loads(REPORT.read_text(encoding="utf-8"))
    return None if report["is_quick"] else report


def _measured(report: Mapping[str, Any], rows: tuple[str, ...] | None) -> str:
    """The rows of a report as a table, all of them or those that are named, below a line that says where they are from.

    Empty when the report has none of them.
    """
    chosen = [row for row in report["rows"] if rows is None or row["row"] in rows]
    if not chosen:
        return ""
    machine = report["machine"]
    head = (
        f"Measured on {machine['date'][:10]} on {machine['cores_count']} cores: Celery {machine['celery']}, kombu "
        f"{machine['kombu']}, gevent {machine['gevent']}, Python {machine['python']}; the median of "
        f"{report['runs_count']} runs."
    )
    shown = runpy.run_path(str(TOP / "bench" / "worker_report.py"))  # `bench` is not installed
    return f"{head}\n\n{shown['markdown']({**report, 'rows': chosen})}"


def _fixed() -> str:
    return table(
        "Celery's name|value", *((code(name), f"`{value}`") for name, value in celery_utils.FIXED_SETTINGS.items())
    )


def _cli() -> str:
    return "\n\n".join(_commands(cli.every(), click.Context(cli, info_name="dev-hops")))


def _commands(verbs: Mapping[str, click.Command], above: click.Context) -> Iterator[str]:
    for name, command in verbs.items():
        context = click.Context(command, info_name=name, parent=above)
        if isinstance(command, click.Group):
            yield f"## {context.command_path}\n\n{_help(command)}"
            yield from _commands(command.commands, context)
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


def _gate_buckets() -> str:
    """The buckets of every provider; those that are counted and paced alike stand in one row."""
    rows = []
    for policy in POLICIES.values():
        alike: dict[BucketPolicy, list[str]] = {}
        for name, bucket in policy.buckets.items():
            alike.setdefault(bucket, []).append(code(name))
        rows.append((policy.name, code("*"), "–", f"{policy.max_conc} under way at once"))
        rows += [(policy.name, ", ".join(names), *_counted(bucket)) for bucket, names in alike.items()]
    return table("provider|bucket|the provider counts it|we let pass at most", *rows)


def _counted(bucket: BucketPolicy) -> tuple[str, str]:
    models = {"none": "–", "fixed": "whole again every", "leaky": "comes back evenly in"}
    unit = ", by cost" if bucket.is_weighed else ""
    counted = models[bucket.model] + ("" if bucket.model == "none" else f" {bucket.period:g} s{unit}")
    burst = f"; {bucket.burst} at once" if bucket.burst > 1 else ""
    return counted, f"one every {bucket.gap * 1000:g} ms{burst}" if bucket.gap else "–"


def _gate_endpoints() -> str:
    """The endpoints of every provider; those that differ only in a bucket of their own stand in one row."""
    rows = []
    for policy in POLICIES.values():
        alike: dict[tuple[str, ...], list[str]] = {}
        for name, endpoint in policy.endpoints.items():
            counted = tuple("ep.NAME" if bucket == f"ep.{name}" else bucket for bucket in endpoint.buckets)
            alike.setdefault((*counted, "silent") if endpoint.silent else counted, []).append(code(name))
        for buckets, names in alike.items():
            shown = ", ".join(code(bucket) for bucket in buckets if bucket != "silent")
            note = "; replies do not tell what is left" if "silent" in buckets else ""
            rows.append((policy.name, ", ".join(names), shown + note))
    return table("provider|endpoint|counts against", *rows)


def _helm_values() -> str:
    """The chart's values, a table for each of its first words."""
    tables: dict[str, list[tuple[object, ...]]] = {}
    for path, default, kinds, meaning in _of_chart("rows", VALUES.read_text(encoding="utf-8")):
        head = path.partition(".")[0] if "." in path else "Common"
        tables.setdefault(head, []).append((code(path), code(default), kinds, meaning))
    return "\n\n".join(f"## {head}\n\n{table('value|default|may be|meaning', *rows)}" for head, rows in tables.items())


def _helm_config() -> str:
    return table("name|may be", *((code(name), kinds) for name, kinds in _of_chart("settings")))


def _of_chart(name: str, *given: object) -> Iterator[tuple[str, ...]]:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    found: Iterator[tuple[str, ...]] = runpy.run_path(str(DOCS / "helm_values.py"))[name](*given, schema)
    return found


def _http(access: str) -> str:
    return table("request|what it does|parameters|statuses", *_of("http_reference", "operations", access))


def _http_bodies() -> str:
    return "\n\n".join(
        f"### {name}\n\n{table('field|needed|value|meaning', *rows)}" for name, rows in _of("http_reference", "bodies")
    )


def _errors() -> str:
    rows = [
        (code(name), code(above), exit_code, status, meaning, remedy)
        for name, above, exit_code, status, meaning, remedy in _of("error_reference", "tree")
    ]
    return table("class|is a|exit|HTTP|meaning|what to do", *rows)


def _problem_kinds() -> str:
    rows = ((code(kind), *rest) for kind, *rest in _of("error_reference", "kinds"))
    return table("`type`|status|when|what to do", *rows)


def _of(module: str, name: str, *given: object) -> Any:
    """What a function of another file of this folder gives; the folder is no package where this file runs by itself."""
    return runpy.run_path(str(DOCS / f"{module}.py"))[name](*given)


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
    "promises": _promises,
    "beside": _beside,
    "classes": _classes,
    "fixed": _fixed,
    "gate-buckets": _gate_buckets,
    "gate-endpoints": _gate_endpoints,
    "cli": _cli,
    "http-open": lambda: _http("OPEN"),
    "http-token": lambda: _http("TOKEN"),
    "http-autoscale": lambda: _http("AUTOSCALE"),
    "http-parameters": lambda: table("parameter|meaning", *_of("http_reference", "parameters")),
    "http-bodies": _http_bodies,
    "problem-kinds": _problem_kinds,
    "problem-statuses": lambda: table("status|`detail`", *_of("error_reference", "statuses")),
    "errors": _errors,
    "helm-values": _helm_values,
    "helm-config": _helm_config,
}
MEASURED: dict[str, tuple[str, ...] | None] = {
    "worker": None,
    "worker-memory": ("idle-memory", "slot-memory", "start", "idle-cpu"),
}


def main() -> None:
    """Write every page anew that is not as the code says, and its figures as the last benchmark found them."""
    report = _report()
    for path in pages():
        page = path.read_text(encoding="utf-8")
        if (new := render(page, report)) != page:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
