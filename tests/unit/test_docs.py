import ast
import dataclasses
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

from celery_utils import PerformanceProfile
from docs import generate
from worker_app import runtime
from worker_app.api.app import create_app
from worker_app.cli.main import cli
from worker_app.settings import Settings

TOP = Path(__file__).resolve().parents[2]
PAGES = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OTHER_NAMES = {
    "HTTPS_PROXY",  # which is not heard
    "API_URL",  # set by `dev-hops env`
    "REDISCLI_AUTH",
    "REDIS_PORT",
    "COMPATIBLE_FROM",  # of the code
    "TASK_QUEUES",
    "TASK_RETRY",
    "NAME_OR_ID",  # stands for what a person writes
    "AUTOSCALE_KEEPALIVE",  # read by Celery
    "REMAP_SIGTERM",
    "PYTHON_IMAGE",  # arguments of the build
    "SOURCE_DATE_EPOCH",
    "DEV_HOPS_IMAGE",  # read by the tests of the image
    *re.findall(r"\$\{([A-Z_]+)", (TOP / "compose.yaml").read_text(encoding="utf-8")),  # read by Compose
    "COMPOSE_PROFILES",
}


@pytest.fixture(params=PAGES, ids=lambda path: str(path.relative_to(TOP)))
def page(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def commands(path: Path) -> str:
    """What a reader would type: code in sentences and blocks that are no output."""
    blocks = [found[2] for found in FENCE.finditer(text(path)) if found[1] not in ("text", "python")]
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", FENCE.sub("", text(path)))])


def anchors(path: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", text(path), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def links(path: Path) -> Iterator[tuple[Path, str]]:
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text(path))):
        if "://" not in target:
            name, _, anchor = target.partition("#")
            yield (path.parent / name).resolve() if name else path, anchor


def test_generated_parts_are_what_the_code_says_now(page: Path) -> None:
    assert text(page) == generate.render(text(page)), "the page is old: run `make docs`"


def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target}#{anchor}"


def test_verbs_exist(page: Path) -> None:
    for verb, next_word in re.findall(r"\bdev-hops +([a-z][a-z-]*)(?: +([a-z][a-z-]*))?", commands(page)):
        command = cli.every().get(verb)
        assert command is not None, f"dev-hops {verb}"
        if isinstance(command, click.Group) and next_word:
            assert next_word in command.commands, f"dev-hops {verb} {next_word}"


def test_options_exist(page: Path) -> None:
    for line in re.findall(r"\bdev-hops +(.+)", commands(page)):
        words = line.split("#")[0].split()
        cli.every()
        command: click.Command = cli
        while isinstance(command, click.Group) and words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        known = {name for item in command.params for name in item.opts} | {"--help"}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given <= known, line


def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", text(TOP / "Makefile"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z0-9-]+)", commands(page))) <= targets


def test_settings_exist(page: Path) -> None:
    settings = {name.upper() for name in Settings.model_fields}
    known = settings | {f"{name}_FILE" for name in settings} | OTHER_NAMES
    mentioned = set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", text(page)))
    assert mentioned - known == set()


@cache
def functions_of(path: str) -> frozenset[str]:
    return frozenset(item.name for item in ast.parse(text(TOP / path)).body if isinstance(item, ast.FunctionDef))


def test_proofs_exist(page: Path) -> None:
    for proof in re.findall(r"`([^`\s]*::[^`\s]*)`", text(page)):
        path, _, name = proof.partition("::")
        assert path.startswith("tests/"), proof
        assert (TOP / path).exists(), proof
        assert name.startswith("test_"), proof
        assert name in functions_of(path), proof


def test_every_scenario_has_a_test_or_a_reason() -> None:
    rows = re.findall(r"^\| ([TD]?\d+) \|.*\| ([^|]*) \|$", text(TOP / "docs/reference/scenarios.md"), re.MULTILINE)
    sections = ("", 48), ("T", 21), ("D", 7)  # the fleet, dispatch, cron
    assert [name for name, _ in rows] == [f"{kind}{number + 1}" for kind, count in sections for number in range(count)]
    assert [name for name, tested in rows if "`tests/" not in tested or "::test_" not in tested] == []


def test_promise_of_every_field_says_who_keeps_it_and_by_which_tests() -> None:
    promises, honours = generate.promises(), {item.name: item for item in dataclasses.fields(PerformanceProfile)}
    assert sorted(entry["name"] for entry in promises["field"]) == sorted(honours)
    for entry in promises["field"]:
        is_ours, said = bool(entry.get("by")), honours[entry["name"]].metadata["gevent"]
        assert is_ours if said == "by us" else not is_ours or said == "yes", entry["name"]
        assert is_ours or said == "yes" or entry["gevent"], entry["name"]
    for entry in (*promises["field"], *promises["beside"]):
        assert set(entry) <= {"name", "settings", "says", "by", "gevent", "prefork", "proof"}, entry["name"]
        assert entry["proof"], entry["name"]


def test_paths_exist(page: Path) -> None:
    for path in re.findall(r"`((?:worker_app|tests|docs|bench)/[\w/.-]+)`", text(page)):
        assert (TOP / path).exists() or path.startswith("bench/results"), path  # what a benchmark writes


def test_pages_name_no_place_of_a_machine(page: Path) -> None:
    assert re.findall(r"(?<![\w.])/(?:work|home|root|tmp)/", text(page)) == []


def test_every_page_is_in_the_index() -> None:
    index = TOP / "docs" / "README.md"
    listed = {target for target, _ in links(index)}
    assert {path for path in PAGES if path.is_relative_to(TOP / "docs")} - listed == {index}


def test_every_table_is_described() -> None:
    sources = [*(TOP / "worker_app/migrations/postgres/versions").glob("*.py"), TOP / "worker_app/store/schema.py"]
    made = {name for path in sources for name in re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", text(path))}
    assert made == set(re.findall(r"^\| `(\w+)` \|", text(TOP / "docs/reference/tables.md"), re.MULTILINE))


def test_every_route_is_described() -> None:
    # Nothing is connected before the first request.
    built = runtime.build(Settings.model_validate({"database_url": "postgresql://docs@localhost/docs"}), role="docs")
    made = {
        f"{method} {re.sub('<.*?>', 'ID', rule.rule)}"
        for rule in create_app(built, built.postgres).url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    described = re.findall(r"^\| `((?:GET|POST|DELETE) /\S*)` \|", text(TOP / "docs/reference/http.md"), re.MULTILINE)
    assert made == set(described)


def test_example_of_celery_utils_runs() -> None:
    path = TOP / "docs/howto/use-celery-utils-alone.md"
    (example,) = [found[2] for found in FENCE.finditer(text(path)) if found[1] == "python"]
    shop: dict[str, object] = {"__name__": "shop"}
    exec(compile(example, str(path), "exec"), shop)  # the point of this test is to run what the page shows
    app: Any = shop["app"]
    app.finalize()  # makes the tasks, which Celery puts off until somebody asks for one
    assert app.tasks["shop.total"]([1, 2, 3]) == 6
    assert app.conf.worker_prefetch_multiplier == 1
    assert app.amqp.router.route({}, "shop.greet")["queue"].name == "mail"
