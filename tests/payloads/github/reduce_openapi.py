"""Reduce GitHub's OpenAPI description to what is in use: `python -m tests.payloads.github.reduce_openapi PACKAGE TARGET`.

PACKAGE is the unpacked npm package `@octokit/openapi`; TARGET is the JSON file that is written. The operations that stay are
listed in `openapi_operations.txt`, components follow from them. Texts for people and examples are left out.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OPERATIONS = Path(__file__).with_name("openapi_operations.txt")
DROPPED = {"description", "summary", "example", "examples", "externalDocs", "tags", "title", "x-github", "operationId"}


def kept_operations() -> list[tuple[str, str]]:
    """Method and path of each operation that stays."""
    lines = [line for line in OPERATIONS.read_text().splitlines() if line and not line.startswith("#")]
    return [(method, path) for method, path in (line.split(" ", 1) for line in lines)]


def reduce(whole: dict[str, Any], operations: list[tuple[str, str]]) -> dict[str, Any]:
    """The description with only `operations` and the components that they lead to."""
    paths: dict[str, Any] = {}
    for method, path in operations:
        paths.setdefault(path, {})[method] = _plain(whole["paths"][path][method])
    components: dict[str, Any] = {}
    waiting = list(_references(paths))
    while waiting:
        kind, name = waiting.pop()
        if name not in components.setdefault(kind, {}):
            components[kind][name] = _plain(whole["components"][kind][name])
            waiting += _references(components[kind][name])
    ordered = {kind: dict(sorted(found.items())) for kind, found in sorted(components.items())}
    return {"openapi": whole["openapi"], "paths": paths, "components": ordered}


def _plain(part: Any, *, is_properties: bool = False) -> Any:
    """A copy without texts. Below `properties` the keys are names of fields, which stay whatever they are."""
    if isinstance(part, list):
        return [_plain(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: _plain(value, is_properties=key == "properties" and not is_properties)
        for key, value in part.items()
        if is_properties or key not in DROPPED
    }


def _references(part: Any) -> Iterator[tuple[str, str]]:
    if isinstance(part, dict):
        target = part.get("$ref")
        if isinstance(target, str):
            _, _, kind, name = target.split("/")
            yield kind, name
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from _references(one)


def main(package: Path, target: Path) -> None:
    """Write the reduced description and the licence beside it."""
    version = json.loads((package / "package.json").read_text())["version"]
    whole = json.loads((package / "generated" / "api.github.com.json").read_text())
    reduced = reduce(whole, kept_operations())
    source = f"api.github.com.json of npm @octokit/openapi {version}, MIT licence, text in {target.stem}.LICENSE"
    reduced["info"] = {"title": "GitHub REST API, reduced", "version": version, "x-source": source}
    target.write_text(json.dumps(reduced, indent=1, sort_keys=True) + "\n")
    target.with_suffix(".LICENSE").write_text((package / "LICENSE").read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
