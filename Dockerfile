# One image, roles by its first argument: worker beat api flower migrate probe doctor. The default is a worker whose pool,
# autoscale and concurrency come from CELERY_POOL, CELERY_AUTOSCALE and CELERY_CONCURRENCY.
ARG PYTHON_IMAGE=python:3.13-slim-trixie

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python3 -m venv /app/.venv
WORKDIR /src
# The dependencies are a layer of their own: a change of our code leaves it alone.
COPY requirements.lock ./
RUN /app/.venv/bin/pip install --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE celery_utils.py ./
COPY worker_app ./worker_app
RUN /app/.venv/bin/pip install --no-deps . \
    && /app/.venv/bin/pip uninstall --yes pip \
    && mkdir -p /app/bin \
    && cp worker_app/cli/entrypoint.sh /app/bin/entrypoint \
    && cp worker_app/cli/probe.sh /app/bin/probe \
    && chmod 0755 /app/bin/entrypoint /app/bin/probe

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="dev-hops" \
      org.opencontainers.image.description="Development data in sync, developer-health metrics out" \
      org.opencontainers.image.licenses="Apache-2.0"
# Versions come from the base image's release; pinning them here would only break its security updates.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git openssh-client tini \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/* \
    && groupadd --gid 10001 dev-hops \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin dev-hops \
    && install -d -o 10001 -g 10001 /run/worker /var/tmp/dev-hops
COPY --from=build /app /app
WORKDIR /app
ENV PATH=/app/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONFAULTHANDLER=1
USER 10001:10001
EXPOSE 5555 8000 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s --retries=3 CMD ["/app/bin/probe", "alive"]
ENTRYPOINT ["/usr/bin/tini", "--", "/app/bin/entrypoint"]
# An exec-form array is never expanded, so a shell does it; no flag is made by expansion, since the obvious one yields a bare
# `20,2` on which Celery stops. An empty value counts as unset, and a set autoscale wins.
CMD ["/bin/sh", "-c", "exec dev-hops worker --pool=\"${CELERY_POOL:-gevent}\" --autoscale=\"${CELERY_AUTOSCALE:-}\" --concurrency=\"${CELERY_CONCURRENCY:-4}\""]
