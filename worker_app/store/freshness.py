"""Freshness: how far behind the records are, and how many batches wait, over all organisations. For telemetry."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import text

from worker_app.store.postgres import Transaction, statement


@dataclass(frozen=True, slots=True)
class WatermarkAge:
    """Of one dataset of one provider, where a schedule reads it."""

    provider: str
    dataset: str
    age_seconds: float  # since the last complete walk began, of the source that is furthest behind; database clock
    slots: int  # of its schedule that have passed since then


def watermark_ages(tx: Transaction) -> list[WatermarkAge]:
    """The datasets that were read to their end at least once."""
    return [WatermarkAge(**row) for row in tx.execute(statement("watermark_ages")).mappings()]


def deferred_batches(tx: Transaction) -> Mapping[str, int]:
    """Provider -> batches that wait for their time; absent where none does."""
    rows = tx.execute(
        text(
            "SELECT provider, count(*) AS n FROM sync_batches "
            "WHERE state IN ('queued', 'running', 'deferred') AND state = 'deferred' "  # the words of sync_batches_released
            "GROUP BY provider"
        )
    )
    return {row.provider: row.n for row in rows}
