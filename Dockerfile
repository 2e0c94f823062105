# One image, roles by its first argument: worker beat api flower migrate probe doctor. The default is a worker whose pool,
# autoscale and concurrency come from CELERY_POOL, CELERY_AUTOSCALE and CELERY_CONCURRENCY.
# docs/reference/image.md says how to build, pin and verify it.
ARG PYTHON_IMAGE=python:3.13-slim-trixie

# The dependencies are a stage and a layer of their own: a change of our code leaves them alone.
FROM ${PYTHON_IMAGE} AS dependencies
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
# Versions come from the base image's release; pinning them here would only break its security updates.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv --without-pip /app/.venv
WORKDIR /src
COPY requirements.lock ./
RUN python3 -m pip --python /app/.venv/bin/python install --no-compile --require-hashes --requirement requirements.lock
ARG SOURCE_DATE_EPOCH=0
# Tests, stubs, C sources and debug symbols of the wheels go. Bytecode is made here, since a read-only root could not keep it:
# for what a role may import, and without times in it, so that the same sources give the same files.
RUN find /app/.venv/lib -depth -type d \( -name tests -o -name test -o -name testing \) -exec rm -r {} + \
    && find /app/.venv/lib -type f \( -name '*.py[ixd]' -o -name '*.[ch]' -o -name '*.cpp' -o -name '*.map' \) -delete \
    && find /app/.venv/lib -type f -name '*.so' -exec strip --strip-debug {} + \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash \
        -x 'pygments/lexers/|wcwidth/table_|dialects/m[sy]|dialects/oracle|/pycparser/|/markdown_it/' /app/.venv/lib \
    && find /app -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +

# What is ours, under /code as it will lie under /.
FROM dependencies AS code
COPY pyproject.toml README.md LICENSE celery_utils.py ./
COPY worker_app ./worker_app
RUN python3 -m pip --python /app/.venv/bin/python install --no-compile --no-deps --root /code . \
    && install -D --mode=0755 worker_app/cli/entrypoint.sh /code/app/bin/entrypoint \
    && install -D --mode=0755 worker_app/cli/probe.sh /code/app/bin/probe \
    && python3 -m compileall -q --invalidation-mode unchecked-hash -s /code /code/app/.venv/lib \
    && find /code -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +

FROM ${PYTHON_IMAGE}
# Git is here to read repositories over https and ssh: what it has for people, for mail and for serving stays out, and so
# does Perl, which only those parts use. dpkg still lists every package, so that a scanner finds their versions.
# hadolint ignore=DL3008
RUN printf 'path-exclude=%s\n' '/usr/share/doc/*' '/usr/share/man/*' '/usr/share/locale/*' '/usr/share/perl/*' \
        '/usr/lib/*/perl/*' '/usr/lib/*/libperl.so*' '/usr/bin/perl5*' '/usr/bin/git-shell' '/usr/bin/scalar' \
        '/usr/share/gitweb/*' '/usr/lib/git-core/git' '/usr/lib/git-core/git-daemon' '/usr/lib/git-core/git-http-backend' \
        '/usr/lib/git-core/git-http-fetch' '/usr/lib/git-core/git-http-push' '/usr/lib/git-core/git-imap-send' \
        '/usr/lib/git-core/git-sh-i18n--envsubst' '/usr/lib/git-core/git-shell' '/usr/lib/git-core/scalar' \
        > /etc/dpkg/dpkg.cfg.d/dev-hops \
    && apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git openssh-client tini \
    && ln -s /usr/bin/git /usr/lib/git-core/git \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log \
    # Nothing in the image installs anything; these are the places of pip in Python's image and in Debian.
    && rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/pip* /usr/local/lib/python3*/ensurepip \
        /usr/bin/pip* /usr/lib/python3/dist-packages/pip* /usr/lib/python3*/ensurepip /usr/share/python-wheels \
    && groupadd --gid 10001 dev-hops \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin dev-hops \
    # Open to every uid, since a platform may choose one; and Docker gives a tmpfs the mode of the folder beneath.
    && install -d -o 10001 -g 10001 -m 1777 /run/worker /var/tmp/dev-hops
COPY --from=dependencies /app /app
COPY --from=code /code /
WORKDIR /app
ENV PATH=/app/.venv/bin:$PATH \
    HOME=/tmp \
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
ARG VERSION=""
ARG REVISION=""
ARG CREATED=""
LABEL org.opencontainers.image.title="dev-hops" \
      org.opencontainers.image.description="Development data in sync, developer-health metrics out" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
