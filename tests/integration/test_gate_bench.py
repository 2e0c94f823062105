from dataclasses import replace

import pytest

from bench import gate_fleet
from bench.gate_scenarios import OURS, SCENARIOS

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("side", [OURS, "limits"])
def test_fleet_accounts_for_every_request(redis_url: str, side: str) -> None:
    scenario = replace(SCENARIOS["quota"], processes=1, greenlets=4)

    found = gate_fleet.measure(redis_url, scenario, side, 1.0)

    assert found["accepted"] > 0
    assert found["sent"] == found["accepted"] + found["refused_primary"] + found["refused_secondary"]
    assert found["acquires_per_grant"] >= 1
