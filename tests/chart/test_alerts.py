"""The alerts of helm/alerts/rules.yaml: each fires when it should and at no other time, and leads a person on."""

import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tests.chart import promql
from worker_app import queues
from worker_app.cli.main import cli
from worker_app.settings import Settings

TOP = Path(__file__).resolve().parents[2]
RULES = TOP / "helm/alerts/rules.yaml"
CASES = sorted((TOP / "tests/chart/alerts").glob("*.yaml"))
RUNBOOK = TOP / "docs/howto/alerts.md"
ADDRESS = "https://dev-hops.invalid/docs/howto/alerts.md#"
OTHER_COMMANDS = {
    "kubectl": {"get", "describe"},
    "redis-cli": {"config", "info"},
}
ALERTS = [
    "DevHopsAckFailures",
    "DevHopsBeatDown",
    "DevHopsBeatDuplicate",
    "DevHopsClockSkew",
    "DevHopsDispatchStale",
    "DevHopsExporterDown",
    "DevHopsGateClosedLong",
    "DevHopsHPAAtMax",
    "DevHopsHPAScalingInactive",
    "DevHopsHubLag",
    "DevHopsMigrationFailed",
    "DevHopsOutboxLate",
    "DevHopsQueueHasNoConsumer",
    "DevHopsQueueOldestAgeHigh",
    "DevHopsRateLimit429Spike",
    "DevHopsRedisClientsHigh",
    "DevHopsRedisEvictionPolicyWrong",
    "DevHopsRunsStuck",
    "DevHopsScheduleLate",
    "DevHopsScheduleQuarantined",
    "DevHopsSlotsRepeated",
    "DevHopsTaskFailRate",
    "DevHopsTickServesNothing",
    "DevHopsUnackedStale",
    "DevHopsWatermarkStale",
    "DevHopsWorkerCatatonic",
]


@cache
def rules() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule.get("alert") or rule["record"]: rule for group in groups for rule in group["rules"]}


@cache
def sections() -> dict[str, str]:
    parts = re.split(r"^## (DevHops\w+)$", RUNBOOK.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def first_command(name: str) -> str:
    (found,) = re.findall(r"First: `(.+?)`", rules()[name]["annotations"]["description"])
    return re.sub(r"\{\{.*?\}\}", "NAME", found.replace("{{ $labels.namespace }}", "hops"))


def mutant(folder: Path, name: str, expression: str) -> Path:
    """A copy of the rules and their cases in which one alert has this expression and no patience."""
    groups = yaml.safe_load(RULES.read_text())
    for rule in (rule for group in groups["groups"] for rule in group["rules"]):
        if rule.get("alert") == name:
            rule["expr"] = expression
            rule.pop("for", None)
    for directory in ("helm/alerts", "tests/chart/alerts"):
        (folder / directory).mkdir(parents=True)
    (folder / "helm/alerts/rules.yaml").write_text(yaml.safe_dump(groups))
    return Path(shutil.copytree(TOP / "tests/chart/alerts", folder / "tests/chart/alerts", dirs_exist_ok=True))


def test_rules_are_rules_of_prometheus() -> None:
    done = promql.promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert done.returncode == 0, done.stderr


def test_every_alert_that_is_promised_is_there() -> None:
    assert sorted(name for name in rules() if name.startswith("DevHops")) == ALERTS


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should(case: Path) -> None:
    done = promql.promtool("test", "rules", case)
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.parametrize("name", ALERTS)
@pytest.mark.parametrize("expression", ["vector(1) == 0", "vector(1)"], ids=["never", "always"])
def test_cases_notice_an_alert_that_fires(name: str, expression: str, tmp_path: Path) -> None:
    cases = mutant(tmp_path, name, expression)
    done = promql.promtool("test", "rules", *[case for case in cases.glob("*.yaml") if f'"{name}"' in case.read_text()])
    assert done.returncode != 0, f"no case tells whether {name} fires"
    assert name in done.stderr + done.stdout


@pytest.mark.parametrize("name", list(rules()))
def test_expressions_name_what_is_told(name: str) -> None:
    assert promql.faults(rules()[name]["expr"]) == []


@pytest.mark.parametrize("name", ALERTS)
def test_what_several_replicas_tell_alike_is_not_added_up(name: str) -> None:
    told_by_api = promql.told_by_api()
    for function, number in re.findall(r"(\w+) by \([^)]*\)\s*\(\s*((?:dev_hops|kube)_\w+)", rules()[name]["expr"]):
        is_told_often = number in told_by_api or number.startswith("kube_")
        assert not is_told_often or function in ("max", "group"), number


@pytest.mark.parametrize("name", list(rules()))
def test_installations_in_other_namespaces_are_others(name: str) -> None:
    for labels in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", rules()[name]["expr"]):
        assert labels.split(", ")[0] == "namespace", labels


@pytest.mark.parametrize("name", ALERTS)
def test_messages_name_labels_that_the_alert_has(name: str) -> None:
    rule = rules()[name]
    named = set(re.findall(r"\$labels\.(\w+)", "".join(rule["annotations"].values())))
    assert named <= promql.listed(rule["expr"]) | promql.made(rule["expr"]) | {"instance", "component"}


@pytest.mark.parametrize("name", ALERTS)
def test_alert_leads_to_its_runbook(name: str) -> None:
    rule = rules()[name]
    assert rule["labels"] == {"severity": rule["labels"]["severity"]}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"{ADDRESS}{name.lower()}"
    assert sections()[name].startswith(f"\n\n`{rule['labels']['severity']}`: ")
    told = first_command(name).removesuffix(" NAME")  # a runbook does not know which one
    assert re.search(rf"\*\*First\*\*: `{re.escape(told)}( NAME)?`", sections()[name])


def test_runbook_has_no_alert_of_the_past() -> None:
    assert sorted(sections()) == ALERTS


@pytest.mark.parametrize("name", ALERTS)
def test_first_command_exists(name: str) -> None:
    program, *words = first_command(name).split()
    if program != "dev-hops":
        verbs = [word for word in words if not word.startswith("--") and word not in ("NAME", "hops")]
        assert verbs[0] in OTHER_COMMANDS[program]
        return
    cli.every()
    command: click.Command = cli
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    options = {option for item in command.params for option in item.opts if option.startswith("--")}
    assert {word for word in words if word.startswith("--")} <= options
    takes = [item for item in command.params if isinstance(item, click.Argument)]
    assert len([word for word in words if not word.startswith("--")]) <= len(takes)


def test_bounds_are_those_of_the_settings() -> None:
    defaults = Settings.model_fields
    assert f"> {defaults['visibility_timeout_seconds'].default + 120}" in rules()["DevHopsUnackedStale"]["expr"]
    assert f"> {defaults['worker_watchdog_seconds'].default})" in rules()["DevHopsWorkerCatatonic"]["expr"]
    two_ticks = 2 * defaults["dispatch_interval_seconds"].default
    assert f"> {two_ticks}" in rules()["DevHopsScheduleLate"]["expr"]
    assert f"> {two_ticks + 20}" in rules()["DevHopsDispatchStale"]["expr"]
    heavy = "|".join(queues.FLEETS["worker-heavy"])
    assert f'queue=~"{heavy}"' in rules()["DevHopsQueueOldestAgeHigh"]["expr"]
