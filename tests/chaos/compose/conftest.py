from tests.compose.conftest import images

__all__ = ["images"]
