from collections.abc import Iterator

import pytest

from worker_app.store import clickhouse
from worker_app.store.clickhouse_metrics import ClickHouseMetrics
from worker_app.store.metrics import MetricSink
from worker_app.store.postgres_metrics import PostgresMetrics


@pytest.fixture(params=["postgres", "clickhouse"])
def sink(request: pytest.FixtureRequest) -> Iterator[MetricSink]:
    """Each store of metrics in turn."""
    opened: MetricSink = PostgresMetrics()
    if request.param == "clickhouse":
        opened = ClickHouseMetrics(clickhouse.connect(request.getfixturevalue("clickhouse_url")))
    yield opened
    opened.close()
