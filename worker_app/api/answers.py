"""Answers: the small documents that the door itself makes. The others are what stores and services return."""

from dataclasses import dataclass
from uuid import UUID

from worker_app.api.health import Part
from worker_app.store.schedules import Schedule
from worker_app.sync.cron import ClockChange
from worker_app.sync.orders import NextSlot


@dataclass(frozen=True, slots=True)
class Alive:
    """The process turns."""

    status: str


@dataclass(frozen=True, slots=True)
class Ready:
    """Whether this process can serve, and by which part it cannot."""

    status: str  # ok, unavailable
    parts: dict[str, Part]


@dataclass(frozen=True, slots=True)
class Asked:
    """A run that was asked for."""

    run_id: UUID


@dataclass(frozen=True, slots=True)
class ScheduleDetail(Schedule):
    """A scheduled job with what is to come of it."""

    next: tuple[NextSlot, ...]
    clock_changes: tuple[ClockChange, ...]
