"""The app of the service with a visibility timeout that no profile would accept: what a message held too long becomes is seen
within seconds. Started as `celery --app tests.integration.worker.impatient worker …`.
"""

from tests.integration.worker.patience import VISIBILITY_SECONDS
from worker_app.celery import app as app

app.conf.broker_transport_options = {
    **app.conf.broker_transport_options,
    "visibility_timeout": VISIBILITY_SECONDS,
}
