"""Who knocks at the door in the tests."""

from flask import Flask
from flask.testing import FlaskClient

TOKEN = "vigorous-otter-of-the-northern-lake"
NOWHERE = "127.0.0.1:1"  # nobody listens on port 1


def with_token(app: Flask) -> FlaskClient:
    """A client that brings the token."""
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    return client
