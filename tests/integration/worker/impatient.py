"""The app of the service with a visibility timeout that no profile would accept: what a message held too long becomes is seen
within seconds. Started as `celery --app tests.integration.worker.impatient worker …`.
"""

from worker_app.celery import app as app

VISIBILITY_SECONDS = 5

app.conf.broker_transport_options = {
    **app.conf.broker_transport_options,
    "visibility_timeout": VISIBILITY_SECONDS,
}
