"""PromQL, as far as a test needs it: which numbers an expression names, and which labels. `promtool` says whether it is right."""

import re
import shutil
import subprocess
from pathlib import Path

from tests.containers import refuse
from worker_app import telemetry

TARGET = {
    "namespace",
    "pod",
    "instance",
    "component",
    "job",
}  # of what is scraped: see the head of helm/alerts/rules.yaml
HPA = {"namespace", "horizontalpodautoscaler"}
FOREIGN = {
    "kube_horizontalpodautoscaler_info": {*HPA, "scaletargetref_kind", "scaletargetref_name"},
    "kube_horizontalpodautoscaler_spec_max_replicas": HPA,
    "kube_horizontalpodautoscaler_status_current_replicas": HPA,
    "kube_horizontalpodautoscaler_status_condition": {*HPA, "condition", "status"},
    "kube_job_failed": {"namespace", "job_name", "condition"},
    "process_resident_memory_bytes": TARGET,
}
RECORDED = {"dev_hops:fleet_hpa:info": {*HPA, "fleet"}}
WORDS = {"and", "or", "unless", "by", "on", "group_left", "bool", "offset"}
STRING = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*\"""")
LISTED = re.compile(r"\b(?:by|on|group_left)\s*\(([^)]*)\)")
NAME = re.compile(r"[a-zA-Z_:][\w:]*")


def known() -> dict[str, set[str]]:
    """Every series that may be there, with its labels."""
    found = {name: set(labels) for name, labels in {**FOREIGN, **RECORDED}.items()}
    for name, kind, _, labels in telemetry.table():
        if kind == "histogram":
            found |= {f"{name}_{part}": {*labels, *TARGET} for part in ("count", "sum")}
            found[f"{name}_bucket"] = {*labels, *TARGET, "le"}
        else:
            found[name] = {*labels, *TARGET}
    return found


def told_by_api() -> set[str]:
    """Numbers that every replica of the API tells alike."""
    return {metric.name for metric in telemetry.EXPORTER.collect()}


def selectors(expression: str) -> dict[str, set[str]]:
    """Name of each series in an expression -> labels by which it is selected."""
    bare = re.sub(r"\[[^\]]*\]|\b\d[\w.]*", " ", LISTED.sub(" ", STRING.sub("''", expression)))
    found: dict[str, set[str]] = {}
    for match in re.finditer(rf"({NAME.pattern})\s*(\(|\{{([^}}]*)\}})?", bare):
        name, follows, inside = match.groups()
        if follows != "(" and name not in WORDS:
            found.setdefault(name, set()).update(NAME.findall(re.sub(r"''", "", inside or "")))
    return found


def listed(expression: str) -> set[str]:
    """Labels by which an expression groups and joins."""
    return {name for part in LISTED.findall(STRING.sub("''", expression)) for name in NAME.findall(part)}


def made(expression: str) -> set[str]:
    """Labels that an expression makes by itself, by `label_replace`."""
    return set(re.findall(r'"(\w+)",\s*"\$\d"', expression))


def faults(expression: str) -> list[str]:
    """What an expression names that nothing tells."""
    series, used = known(), selectors(expression)
    if unknown := sorted(set(used) - set(series)):
        return [f"nothing tells {', '.join(unknown)}"]
    there = set().union(*(series[name] for name in used), made(expression))
    return [f"{name} has no {label}" for name, labels in used.items() for label in sorted(labels - series[name])] + [
        f"no label {label}" for label in sorted(listed(expression) - there)
    ]


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What promtool answers. Skips the test where there is none, and fails it under CI."""
    if shutil.which("promtool") is None:
        refuse("there is no promtool on PATH (Debian: prometheus)")
    command = ["promtool", *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
