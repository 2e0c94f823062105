import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.command_line import dev_hops
from worker_app.cli import main
from worker_app.cli.main import HOLDERS, cli


@pytest.mark.parametrize(
    "words",
    [
        ["schedules", "add", "x", "--cron", "@daily", "--tz", ""],
        ["schedules", "list", "--org", ""],
        ["sync", "x", "--idempotency-key", ""],
        ["orgs", "add", "x", "--tz", ""],
    ],
)
def test_option_that_is_empty_is_refused_by_name(words: list[str]) -> None:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert f"Invalid value for '{words[-2]}'" in done.output
    assert "it is empty" in done.output


def test_every_verb_takes_json_or_starts_a_role() -> None:
    def leaves(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            return [leaf for name, item in command.commands.items() for leaf in leaves(item, f"{path} {name}")]
        return [(path.strip(), command)]

    cli.every()
    plain = [
        path for path, command in leaves(cli, "") if "as_json" not in {parameter.name for parameter in command.params}
    ]
    assert plain == ["worker", "beat", "api", "flower"]


@pytest.mark.parametrize(
    "words",
    [
        ["sources", "add", "ghp_0123456789abcdef0123"],
        ["credentials", "add", "github_pat_0123456789abcdef0123", "--provider", "github"],
        ["sources", "add", "acme", "--credential", "ghs_0123456789abcdef0123"],
        ["gate", "show", "glpat-0123456789abcdef0123"],
    ],
)
def test_secret_that_was_typed_is_refused_and_not_repeated(words: list[str]) -> None:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert "looks like a secret" in done.output
    assert "0123456789abcdef" not in done.output


def test_store_that_is_away_is_75_and_says_where_to_look() -> None:
    away = {"DATABASE_URL": "postgresql://u:canary@127.0.0.1:1/d", "REDIS_URL": "redis://127.0.0.1:1/0"}
    ended = dev_hops("runs", "list", environment=away)
    assert (ended.returncode, ended.stdout) == (75, "")
    assert ended.stderr.startswith("Error: Postgres does not answer: ")
    assert "whether its address is right: `dev-hops doctor` asks each" in ended.stderr
    assert "canary" not in ended.stderr


def test_table_of_verbs_is_what_the_modules_hold() -> None:
    found = {
        command.name: name
        for name in {names[0] for names in HOLDERS.values()}
        for command in import_module(f"worker_app.cli.{name}").COMMANDS
    }
    assert found == {verb: names[0] for verb, names in HOLDERS.items()}


def test_every_module_that_adds_to_a_group_is_in_the_table() -> None:
    folder = Path(main.__file__).parent
    adding = {
        path.stem
        for path in folder.glob("*.py")
        if re.search(r"^@\w+\.command\(", path.read_text("utf-8"), re.MULTILINE)
    }
    assert adding - {"main"} <= {name for names in HOLDERS.values() for name in names}


def test_role_starts_without_what_other_verbs_need() -> None:
    look = "import sys; from worker_app.cli.main import cli; cli.get_command(None, 'worker'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=30)
    assert "worker_app.cli.roles" in done.stdout.split()
    assert {"sqlalchemy", "alembic", "redis", "requests", "jwt"} & set(done.stdout.split()) == set()
