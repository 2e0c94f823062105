import pytest
import redis

from tests.gate_model import Model


@pytest.mark.timeout(90)
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_scripts_and_memory_answer_the_same_and_keep_what_is_promised(redis_client: redis.Redis, seed: int) -> None:
    model = Model(redis_client, seed)
    model.walk(4000)
    assert model.grants > 200
    assert model.refusals > 50
