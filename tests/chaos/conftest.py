from tests.integration.promises.conftest import stage

__all__ = ["stage"]
