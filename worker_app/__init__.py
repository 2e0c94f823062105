"""dev-hops: development data in sync, developer-health metrics out, on gevent-pooled Celery workers."""
