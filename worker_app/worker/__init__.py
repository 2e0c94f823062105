"""What we add to a Celery worker: checks at start, the process's runtime, heartbeat and presence, publishing."""
