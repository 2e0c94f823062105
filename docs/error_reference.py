"""What the page about errors says: the tree of worker_app/errors.py by exit code and HTTP status, and the types of problems."""

import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path

from worker_app import errors
from worker_app.api import problems
from worker_app.cli import exits
from worker_app.errors import DevHopsError

REMEDIES = Path(__file__).with_name("errors.toml")


def classes() -> list[type[DevHopsError]]:
    """Every class of the tree, as it stands in the file."""
    every = vars(errors).values()
    return [item for item in every if inspect.isclass(item) and issubclass(item, DevHopsError)]


def tree() -> Iterator[tuple[str, ...]]:
    """One row for each class: name, class above, exit code, HTTP status, meaning, remedy. Raises KeyError without a remedy."""
    remedies: dict[str, str] = tomllib.loads(REMEDIES.read_text(encoding="utf-8"))
    for item in classes():
        above = "" if item is DevHopsError else str(item.__mro__[1].__name__)
        code = exits.exit_code(item.__new__(item))  # of the class alone: no field of it decides
        yield item.__name__, above, str(code), _status(item), _meaning(item), remedies.pop(item.__name__)
    if remedies:
        raise KeyError(f"{REMEDIES.name} names classes that are no longer there: {', '.join(remedies)}")


def _meaning(item: type[DevHopsError]) -> str:
    said = " ".join(inspect.cleandoc(item.__doc__ or "").split("\n\n")[0].split())
    return said.partition(" Exit code ")[0]


def _status(item: type[DevHopsError]) -> str:
    mapped = {entry.error: entry for entry in problems.MAPPED}
    found = next((mapped[above] for above in item.__mro__ if above in mapped), None)
    if found is None:
        return "500"
    return f"{found.status} `{problems.PREFIX}{found.kind}`" if found.kind else str(found.status)


def kinds() -> Iterator[tuple[str, ...]]:
    """One row for each type of a problem: type, status, when it comes, remedy."""
    yield problems.BLANK, "any", "the status says it all", "do what `detail` says"
    for name, kind in problems.KINDS.items():
        yield f"{problems.PREFIX}{name}", str(kind.status), kind.says, kind.remedy


def statuses() -> Iterator[tuple[str, str]]:
    """One row for each status that werkzeug's errors have a sentence of ours for: status, the sentence."""
    for status, said in problems.DETAILS.items():
        yield str(status), said.replace("{path}", "PATH").replace("{method}", "METHOD").replace("{limit}", "LIMIT")
