# Two stages: the first has a compiler and builds psycopg2 against the system's libpq, the second only runs.
FROM python:3.11-slim-bookworm AS build

SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev libpq-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements/build.txt requirements/image.txt requirements/
RUN python -m venv /opt/build && python -m venv /opt/siltstone \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/build.txt \
    && /opt/siltstone/bin/pip install --no-cache-dir --require-hashes -r requirements/image.txt
COPY pyproject.toml README.md LICENSE ./
COPY segments segments
COPY ingest ingest
COPY query query
COPY server server
COPY siltstone siltstone
COPY migrations migrations
# Without dependencies: image.txt has them all, with psycopg2 in the place of psycopg2-binary.
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/siltstone/bin/pip install --no-cache-dir --no-deps /wheels/*.whl \
    && /opt/siltstone/bin/pip uninstall --yes pip setuptools \
    && /opt/siltstone/bin/python -m compileall -q /opt/siltstone/lib

FROM python:3.11-slim-bookworm

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libpq5 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --home-dir /var/lib/siltstone --create-home siltstone
COPY --from=build /opt/siltstone /opt/siltstone
ENV PATH=/opt/siltstone/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    SILTSTONE_DATA_DIR=/var/lib/siltstone/data
USER 10001:10001
WORKDIR /var/lib/siltstone
# Made here so that a fresh named volume belongs to the user.
RUN mkdir data
VOLUME /var/lib/siltstone/data
EXPOSE 8888
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=6 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8888/status/health', timeout=2)"]
ENTRYPOINT ["siltstone"]
CMD ["serve"]
