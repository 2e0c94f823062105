import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from bench import shape


def tree(folder: Path, **files: str) -> Path:
    """A tree with these files; `__` in a name stands for a slash."""
    for name, source in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(source).lstrip("\n"), encoding="utf-8")
    return folder


def figures(folder: Path) -> dict[str, Any]:
    return shape.figures(folder, ["app"], "tests")


def package(folder: Path, **modules: str) -> Path:
    """A tree whose package `app` has these modules."""
    tree(folder, **{f"app__{name}": source for name, source in modules.items()})
    (folder / "app" / "__init__.py").touch()
    return folder


def test_files_and_functions_are_counted_by_their_lines(tmp_path: Path) -> None:
    package(
        tmp_path,
        long="""
            class A:
                @property
                def first(self):
                    def inner():
                        pass
                    return inner
            """,
        short="x = 1\n",
    )

    found = figures(tmp_path)

    assert found["files_count"] == 2  # an empty __init__ is no file to read
    assert found["lines_count"] == 7
    assert found["longest_files"][0] == {"place": "app/long.py", "lines": 6}
    assert found["lines_per_function"] == {"median": 3, "p90": 4, "max": 4}
    assert [item["place"] for item in found["longest_functions"]] == [
        "app/long.py:3 A.first",
        "app/long.py:4 A.first.inner",
    ]


@pytest.mark.parametrize(("count", "p90"), [(1, 1), (9, 9), (10, 9), (11, 10)])
def test_p90_is_the_nearest_rank(tmp_path: Path, count: int, p90: int) -> None:
    package(tmp_path, **{f"m{lines}": "x = 1\n" * lines for lines in range(1, count + 1)})

    assert figures(tmp_path)["lines_per_file"]["p90"] == p90


def test_docstrings_are_asked_of_what_is_public(tmp_path: Path) -> None:
    package(
        tmp_path,
        told='"""Told."""\n',
        mute="""
            class Told:
                '''Told.'''
                def mute(self): ...
                def __len__(self): ...
                def _own(self): ...
            class _Own:
                def hidden(self): ...
            def outer():
                '''Told.'''
                def inner(): ...
            """,
    )

    found = figures(tmp_path)

    assert found["public_docstrings_percent"] == 66  # Told, outer; not mute
    assert found["module_docstrings_percent"] == 50


@pytest.mark.parametrize(
    ("source", "percent"),
    [
        ("def f(a: int, *b: int, c: int, **d: int) -> None: ...", 100),
        ("def f(a: int): ...", 0),
        ("def f(a: int, *b) -> None: ...", 0),
        ("async def f(*, a) -> None: ...", 0),
        ("class A:\n def __init__(self, a: int): ...", 100),
        ("class A:\n @classmethod\n def f(cls) -> None: ...", 100),
        ("class A:\n @staticmethod\n def f(a) -> None: ...", 0),
        ("x = lambda a: a", None),
    ],
)
def test_typed_asks_for_each_parameter_and_the_result(tmp_path: Path, source: str, percent: int | None) -> None:
    assert figures(package(tmp_path, m=source))["typed_functions_percent"] == percent


def test_circles_go_by_modules_also_through_functions_and_relative_imports(tmp_path: Path) -> None:
    package(
        tmp_path,
        a="import app.b",
        b="from . import c",
        c="def f():\n from app import a",
        apart="from app.a import x",
        itself="from app import itself",
    )

    assert figures(tmp_path)["import_circles"] == [["app.a", "app.b", "app.c"]]


def test_an_import_for_types_alone_makes_no_circle(tmp_path: Path) -> None:
    package(tmp_path, a="from app import b", b="if TYPE_CHECKING:\n from app import a")

    assert figures(tmp_path)["import_circles"] == []


def test_a_folder_below_is_left_by_two_dots(tmp_path: Path) -> None:
    package(tmp_path, a="from app.sub import b", sub____init__="from .b import x", sub__b="from ..a import x")

    assert figures(tmp_path)["import_circles"] == [["app.a", "app.sub.b"]]


def test_an_import_is_hidden_in_a_function_alone(tmp_path: Path) -> None:
    package(tmp_path, m="try:\n import a\nexcept ImportError:\n pass\nclass C:\n import b\n def f(self):\n  import c")

    assert figures(tmp_path)["imports_inside_functions"] == ["app/m.py:8"]


@pytest.mark.parametrize(
    ("source", "is_reading"),
    [
        ("import os\nx = os.environ['A']", True),
        ("import os\ndef f(): return os.getenv('A')", True),
        ("from os import environ as e", True),
        ("import os\nx = os.name", False),
        ("x = y.environ", False),
        ("'os.environ'", False),
    ],
)
def test_files_that_read_the_environment_are_named(tmp_path: Path, source: str, is_reading: bool) -> None:
    found = figures(package(tmp_path, m=source))

    assert found["files_reading_environment"] == (["app/m.py"] if is_reading else [])


@pytest.mark.parametrize(
    ("caught", "is_broad"),
    [("", True), (" Exception", True), (" (OSError, BaseException) as e", True), (" OSError", False)],
)
def test_broad_excepts_are_placed(tmp_path: Path, caught: str, is_broad: bool) -> None:
    found = figures(package(tmp_path, m=f"try:\n x()\nexcept{caught}:\n raise\n"))

    assert found["broad_excepts"] == (["app/m.py:3"] if is_broad else [])
    assert found["broad_excepts_that_raise_again_count"] == int(is_broad)


@pytest.mark.parametrize("path", ["app/utils.py", "app/common/x.py", "app/test_helpers.py"])
def test_names_that_may_hold_anything_are_named(path: str) -> None:
    assert shape.is_catch_all(path)
    assert not shape.is_catch_all("app/commons_of_utility.py")


@pytest.mark.parametrize(
    ("comment", "tickets", "banners"),
    [
        ("# see CHAOS-123", 1, 0),
        ("# fixed in #1234", 1, 0),
        ("# UTF-8 and SHA-256, item #1", 0, 0),
        ("# https://example.org/page#123", 0, 0),
        ("# ---------- helpers", 0, 1),
        ("#######", 0, 1),
        ("# a -> b -- c", 0, 0),
        ("x = '# ====== CHAOS-123'", 0, 0),
        ("def f():\n '''For CHAOS-123.'''", 1, 0),
    ],
)
def test_ticket_ids_and_banners_are_found_in_comments_and_docstrings(
    tmp_path: Path, comment: str, tickets: int, banners: int
) -> None:
    found = figures(package(tmp_path, m=comment + "\n"))

    assert (len(found["ticket_ids"]), len(found["banners"])) == (tickets, banners)


def test_tests_are_held_against_the_code_also_inside_it(tmp_path: Path) -> None:
    package(tmp_path, m="x = 1\n" * 4, tests__test_m="x = 1\n" * 6)

    found = shape.figures(tmp_path, ["app"], "app/tests")

    assert (found["lines_count"], found["test_lines_count"], found["test_to_code_ratio"]) == (4, 6, 1.5)


def test_hidden_and_built_folders_are_no_code(tmp_path: Path) -> None:
    package(tmp_path, m="x = 1", build__m="x = 1", **{".venv__m": "x = 1"})

    assert figures(tmp_path)["files_count"] == 1


def test_what_cannot_be_parsed_is_named_and_left_out(tmp_path: Path) -> None:
    package(tmp_path, m="x = 1", old="print 'x'", torn="x = '\0'")

    found = figures(tmp_path)

    assert found["unreadable_files"] == ["app/old.py", "app/torn.py"]
    assert found["files_count"] == 1


def test_a_folder_that_is_no_package_and_a_single_file_are_code_too(tmp_path: Path) -> None:
    tree(tmp_path, src__a="import b", src__b="import a", one="x = 1")

    found = shape.figures(tmp_path, ["src", "one.py"], "tests")

    assert found["files_count"] == 3
    assert found["import_circles"] == [["a", "b"]]


def test_an_empty_tree_has_no_figures_and_no_fault(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()

    found = figures(tmp_path)

    assert found["files_count"] == 0
    assert found["lines_per_file"] is found["typed_functions_percent"] is found["test_to_code_ratio"] is None
    assert "–" in shape.text(found)


def test_the_text_shows_five_of_many_and_says_how_many_more(tmp_path: Path) -> None:
    package(tmp_path, m="import os\ndef f():\n" + " import os\n" * 7)

    shown = shape.text(figures(tmp_path))

    assert shown.count("    app/m.py:") == 5
    assert "and 2 more" in shown


def test_the_program_prints_one_document_and_needs_no_library(tmp_path: Path, checkout: Path) -> None:
    package(tmp_path, m="import a\n")

    done = subprocess.run(
        [sys.executable, "-I", "-S", str(checkout / "bench" / "shape.py"), str(tmp_path), "app", "--json"],
        capture_output=True,
        check=True,
        timeout=20,
    )

    assert json.loads(done.stdout)["files_count"] == 1


def test_a_package_that_is_not_there_is_a_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        shape.main([str(tmp_path), "app"])

    assert "there is no app" in capsys.readouterr().err
