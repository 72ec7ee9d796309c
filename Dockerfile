# One image for every role: `stampede serve|owner|edge|scaler`, `stampede-operator run`.
#
# BASE may be any Python image of Debian's kind; this one is named by its digest (for all platforms; docs/releasing.md says how to
# renew it). Libraries are the files of deploy/image/libraries.txt by their hashes, so the same commit gives the same image,
# whenever it is built (SOURCE_DATE_EPOCH goes into file times of what is compiled).
ARG BASE=python:3.13-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 SOURCE_DATE_EPOCH=1767225600
RUN python3 -m venv --without-pip --copies /opt/stampede && python3 -m venv /opt/pip
WORKDIR /src
COPY deploy/image/libraries.txt deploy/image/build.txt ./
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY operator ./operator
COPY broker ./broker
# The pipeline has an image of its own: its command would be a script here without its package.
# Without isolation: of a library that comes as sources only (etcd3) pip fetches what builds it by itself, without a hash.
# The checksummed .pyc files need no file times, and a read-only image could not write its own. Libraries carry symbols for
# debuggers (25 MB of 86), and a virtual environment three copies of one interpreter.
RUN apt-get update -q && apt-get install -qy --no-install-recommends binutils >/dev/null \
 && /opt/pip/bin/pip install --require-hashes --only-binary :all: -r build.txt \
 && /opt/pip/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /opt/wheels . \
 && /opt/pip/bin/pip wheel --require-hashes --no-build-isolation --wheel-dir /opt/wheels -r libraries.txt \
 && /opt/pip/bin/pip --python /opt/stampede/bin/python install --no-index --no-deps /opt/wheels/*.whl \
 && rm /opt/stampede/bin/stampede-pipeline \
 && find /opt/stampede -name '*.so' -exec strip --strip-unneeded {} + \
 && (cd /opt/stampede/bin && for each in python python3; do ln -sf "$(ls python3.*)" "$each"; done) \
 && find /opt/stampede -name __pycache__ -prune -exec rm -rf {} + \
 && find /opt/stampede -name tests -type d -path '*site-packages*' -prune -exec rm -rf {} + \
 && /opt/stampede/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/stampede/lib

FROM ${BASE}
LABEL org.opencontainers.image.title="Stampede" \
      org.opencontainers.image.description="A Kubernetes-native message broker that speaks STOMP 1.0, 1.1 and 1.2" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 stampede \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/stampede --no-create-home --shell /usr/sbin/nologin stampede \
 && mkdir -p /var/lib/stampede && chown 10001:10001 /var/lib/stampede
COPY --from=build /opt/stampede /opt/stampede
ENV PATH=/opt/stampede/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    STAMPEDE_DATA=/var/lib/stampede
USER 10001:10001
WORKDIR /var/lib/stampede
VOLUME /var/lib/stampede
# STOMP, STOMP over WebSocket, admin port, other components
EXPOSE 61613 61614 61680 61700
# Alive; whether clients are taken is /readyz. Kubernetes has probes of its own and does not look at this.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["python3", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:61680/healthz', timeout=2)"]
CMD ["stampede", "serve"]
