"""The shape of a Python tree as figures, for the eye: how long, how documented, how typed, how tangled. It fails nothing.

Only the standard library, so that it measures any tree. Source is parsed, never imported. A file is every `.py` that is not
empty; lines are physical lines, a function's from its `def` to its end, nested functions counted as well.
"""

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from statistics import median

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.ClassDef | Function
LONGEST = 5
PACKAGE = "worker_app,celery_utils.py"
TESTS = "tests"
CATCH_ALL = frozenset(
    {"common", "helper", "helpers", "misc", "util", "utils"}
)  # as a word of a file's or folder's name
SKIPPED = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"})
ENVIRONMENT = frozenset({"environ", "environb", "getenv"})
STANDARDS = "AES|ASCII|BLE|CP|CVE|ES|HS|HTTP|ISO|MD|PEP|PY|RFC|RS|SHA|TLS|UTF"
TICKET = re.compile(rf"(?<![\w&#/])#\d{{2,}}\b|\b(?!(?:{STANDARDS})-)[A-Z]{{2,}}-\d+\b")
BANNER = re.compile(r"([-=#*~─═])\1{3}")


@dataclass(slots=True)
class Module:
    """What one file holds. Places are `path:line`, with what stands there where it has a name."""

    path: str  # below the tree
    name: str  # dotted, from the top of its package
    lines: int
    has_docstring: bool
    functions: list[tuple[str, int]] = field(default_factory=list)  # place, lines
    typed: int = 0  # functions with every parameter and the result annotated
    public: int = 0  # classes, functions and methods without an underscore on the way to them
    documented: int = 0  # those of them with a docstring
    imports: list[tuple[str, ...]] = field(default_factory=list)  # each as the names it may mean, the likeliest first
    hidden_imports: list[str] = field(default_factory=list)  # places of imports inside functions
    broad_excepts: list[str] = field(default_factory=list)  # places
    raised_again: int = 0  # how many of them hold a raise
    reads_environment: bool = False
    tickets: list[str] = field(default_factory=list)  # places of comments and docstrings
    banners: list[str] = field(default_factory=list)  # places of comments

    def place(self, line: int, name: str = "") -> str:
        """Where a line of this file is."""
        return f"{self.path}:{line} {name}".rstrip()


def read(file: Path, path: str, name: str) -> Module | None:
    """The module in `file`; None for an empty one. Raises SyntaxError, ValueError or TokenError for what cannot be parsed."""
    source = file.read_text(encoding="utf-8", errors="replace")
    if not source.strip():
        return None
    parsed = ast.parse(source)
    module = Module(path, name, len(source.splitlines()), ast.get_docstring(parsed) is not None)
    _note_docstring(module, parsed, line=1)
    _walk(module, parsed, name if file.stem == "__init__" else name.rpartition(".")[0], ())
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            module.tickets += [module.place(token.start[0])] if TICKET.search(token.string[1:]) else []
            module.banners += [module.place(token.start[0])] if BANNER.search(token.string) else []
    return module


def _walk(module: Module, node: ast.AST, package: str, scopes: tuple[Scope, ...]) -> None:
    """Write down what `node` and all below it mean for the figures."""
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            _note_definition(module, node, scopes)
            scopes = (*scopes, node)
        case ast.If() if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in node.orelse:  # what only a type checker imports makes no circle
                _walk(module, other, package, scopes)
            return
        case ast.Import():
            _note_imports(module, node, [(alias.name,) for alias in node.names], scopes)
        case ast.ImportFrom():
            origin = _origin(node, package)
            names = [alias.name for alias in node.names]
            module.reads_environment |= origin == "os" and not ENVIRONMENT.isdisjoint(names)
            _note_imports(module, node, [(f"{origin}.{name}", origin) for name in names], scopes)
        case ast.Attribute(value=ast.Name(id="os"), attr=attribute):
            module.reads_environment |= attribute in ENVIRONMENT
        case ast.ExceptHandler():
            _note_except(module, node)
    for child in ast.iter_child_nodes(node):
        _walk(module, child, package, scopes)


def _note_definition(module: Module, node: Scope, scopes: tuple[Scope, ...]) -> None:
    is_method = bool(scopes) and isinstance(scopes[-1], ast.ClassDef)
    if not isinstance(node, ast.ClassDef):
        qualified = ".".join(scope.name for scope in (*scopes, node))
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        module.functions.append((module.place(node.lineno, qualified), lines))
        module.typed += is_typed(node, is_method=is_method)
    _note_docstring(module, node, line=node.lineno)
    is_local = not all(isinstance(scope, ast.ClassDef) for scope in scopes)
    if not is_local and not any(scope.name.startswith("_") for scope in (*scopes, node)):
        module.public += 1
        module.documented += ast.get_docstring(node) is not None


def _note_docstring(module: Module, node: Scope | ast.Module, *, line: int) -> None:
    if TICKET.search(ast.get_docstring(node) or ""):
        module.tickets.append(module.place(line))


def _note_imports(module: Module, node: ast.stmt, meant: Iterable[tuple[str, ...]], scopes: tuple[Scope, ...]) -> None:
    module.imports += meant
    if not all(isinstance(scope, ast.ClassDef) for scope in scopes):
        module.hidden_imports.append(module.place(node.lineno))


def _origin(node: ast.ImportFrom, package: str) -> str:
    """The full name of what is imported from; each dot beyond the first goes one package up."""
    if not node.level:
        return node.module or ""
    parents = package.split(".")
    return ".".join([*parents[: len(parents) - node.level + 1], *([node.module] if node.module else [])])


def _note_except(module: Module, node: ast.ExceptHandler) -> None:
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    if any(item is None or ast.unparse(item) in ("Exception", "BaseException") for item in caught):
        module.broad_excepts.append(module.place(node.lineno))
        module.raised_again += any(isinstance(item, ast.Raise) for item in ast.walk(node))


def is_typed(node: Function, *, is_method: bool) -> bool:
    """Whether each parameter and the result are annotated; `self`, `cls` and the result of `__init__` need not be."""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    is_static = any(ast.unparse(item) == "staticmethod" for item in node.decorator_list)
    own = positional[1:] if is_method and not is_static else positional
    starred = [item for item in (given.vararg, given.kwarg) if item]
    has_result = node.returns is not None or (is_method and node.name == "__init__")
    return has_result and all(item.annotation for item in (*own, *given.kwonlyargs, *starred))


def circles(modules: Sequence[Module]) -> list[list[str]]:
    """The sets of modules that import one another, the biggest first. Imports inside functions count, type-only ones do not."""
    names = {module.name for module in modules}
    meant = {module.name: [next((n for n in item if n in names), "") for item in module.imports] for module in modules}
    arrows = {name: {other for other in found if other not in ("", name)} for name, found in meant.items()}
    reached = {name: _reached(name, arrows) for name in arrows}
    tangles = {frozenset(other for other in reached[name] if name in reached[other]) for name in arrows}
    return sorted((sorted(found) for found in tangles if found), key=lambda found: (-len(found), found))


def _reached(start: str, arrows: Mapping[str, set[str]]) -> set[str]:
    """All that `start` leads to; itself only by a way round."""
    found: set[str] = set()
    waiting = list(arrows[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += arrows[name]
    return found


def files_below(place: Path) -> Iterator[Path]:
    """Each Python file at or below a place, without hidden and built folders."""
    if place.is_file():
        yield place
        return
    for file in sorted(place.rglob("*.py")):
        folders = file.relative_to(place).parts[:-1]
        if not any(folder.startswith(".") or folder in SKIPPED for folder in folders):
            yield file


def _dotted(file: Path, place: Path) -> str:
    """The name under which a file is imported: from the top of its package, or from a folder that is none."""
    top = place if place.is_dir() and not (place / "__init__.py").exists() else place.parent
    parts = file.relative_to(top).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def figures(tree: Path, packages: Sequence[str], tests: str) -> dict[str, object]:
    """Every figure of the code in `packages` (folders or files below `tree`) and its tests. Keys and units are public."""
    tests_folder = tree / tests
    modules, unreadable = [], []
    for place in (tree / package for package in packages):
        for file in files_below(place):
            path = str(file.relative_to(tree))
            try:
                module = None if file.is_relative_to(tests_folder) else read(file, path, _dotted(file, place))
            except (SyntaxError, ValueError, tokenize.TokenError):  # ValueError: a NUL in the source
                unreadable.append(path)
            else:
                modules += [module] if module else []
    return {**_sizes(modules), **_manners(modules), "unreadable_files": unreadable, **_tests(modules, tests_folder)}


def _sizes(modules: Sequence[Module]) -> dict[str, object]:
    files = [(module.path, module.lines) for module in modules]
    functions = [item for module in modules for item in module.functions]
    return {
        "files_count": len(files),
        "lines_count": sum(lines for _, lines in files),
        "lines_per_file": _spread(files),
        "longest_files": _longest(files),
        "functions_count": len(functions),
        "lines_per_function": _spread(functions),
        "longest_functions": _longest(functions),
    }


def _manners(modules: Sequence[Module]) -> dict[str, object]:
    functions = sum(len(module.functions) for module in modules)
    broad = [place for module in modules for place in module.broad_excepts]
    return {
        "public_docstrings_percent": _percent(sum(m.documented for m in modules), sum(m.public for m in modules)),
        "module_docstrings_percent": _percent(sum(m.has_docstring for m in modules), len(modules)),
        "typed_functions_percent": _percent(sum(m.typed for m in modules), functions),
        "import_circles": circles(modules),
        "imports_inside_functions": [place for module in modules for place in module.hidden_imports],
        "files_reading_environment": [module.path for module in modules if module.reads_environment],
        "broad_excepts": broad,
        "broad_excepts_that_raise_again_count": sum(module.raised_again for module in modules),
        "catch_all_names": [module.path for module in modules if is_catch_all(module.path)],
        "ticket_ids": [place for module in modules for place in module.tickets],
        "banners": [place for module in modules for place in module.banners],
    }


def _tests(modules: Sequence[Module], folder: Path) -> dict[str, object]:
    lines = sum(len(file.read_bytes().splitlines()) for file in files_below(folder)) if folder.exists() else 0
    code = sum(module.lines for module in modules)
    return {"test_lines_count": lines, "test_to_code_ratio": round(lines / code, 2) if code else None}


def is_catch_all(path: str) -> bool:
    """Whether the name of a file or of a folder on the way to it says that anything may be in it."""
    words = {word for part in Path(path).with_suffix("").parts for word in part.lower().split("_")}
    return not CATCH_ALL.isdisjoint(words)


def _spread(items: Sequence[tuple[str, int]]) -> dict[str, int] | None:
    """Median, 90th percentile (nearest rank) and greatest; None where there is nothing."""
    lines = sorted(lines for _, lines in items)
    if not lines:
        return None
    return {"median": round(median(lines)), "p90": lines[ceil(0.9 * len(lines)) - 1], "max": lines[-1]}


def _longest(items: Sequence[tuple[str, int]]) -> list[dict[str, object]]:
    found = sorted(items, key=lambda item: (-item[1], item[0]))[:LONGEST]
    return [{"place": place, "lines": lines} for place, lines in found]


def _percent(part: int, whole: int) -> int | None:
    """Whole percent, rounded down, so that 100 means all; None where there is nothing."""
    return 100 * part // whole if whole else None


def text(found: Mapping[str, object]) -> str:
    """The figures for a person: one line each, and under it what is worth a look."""
    return "\n".join(line for name, value in found.items() for line in _lines(name.replace("_", " "), value))


def _lines(name: str, value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield f"{name:<38}{' · '.join(map(str, value.values()))}   ({' · '.join(value)})"
    elif isinstance(value, list):
        is_ranking = name.startswith("longest")
        yield name if is_ranking else f"{name:<38}{len(value)}"
        for item in value if is_ranking else value[:LONGEST]:
            yield f"    {_item(item)}"
        if len(value) > LONGEST:
            yield f"    and {len(value) - LONGEST} more; --json lists all"
    else:
        yield f"{name:<38}{'–' if value is None else value}"


def _item(item: object) -> str:
    if isinstance(item, dict):
        return f"{item['lines']:>5}  {item['place']}"
    return f"{len(item)} modules: {', '.join(item)}" if isinstance(item, list) else str(item)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; returns the exit code, which says nothing about them."""
    parser = argparse.ArgumentParser(description="Print the size and structure of a Python tree. It fails nothing.")
    parser.add_argument("tree", nargs="?", default=".", type=Path, metavar="TREE", help="top folder (default: .)")
    parser.add_argument("package", nargs="?", default=PACKAGE, metavar="PACKAGE",
                        help="folders and files with the code, separated by commas (default: %(default)s)")  # fmt: skip
    parser.add_argument(
        "tests", nargs="?", default=TESTS, metavar="TESTS", help="folder with the tests (default: tests)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args(arguments)
    packages = [name.strip() for name in options.package.split(",") if name.strip()]
    if missing := [name for name in packages if not (options.tree / name).exists()]:
        parser.error(f"there is no {', '.join(missing)} in {options.tree}: name PACKAGE")
    found = figures(options.tree, packages, options.tests)
    print(json.dumps(found, indent=2, ensure_ascii=False) if options.json else text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
