# The router before several cells. docker build -f docker/router.Dockerfile .
# What is installed is pinned by hash (`make locks`). The base: see docs/supply-chain.md.
ARG PYTHON=python:3.11-slim
FROM ${PYTHON} AS build
WORKDIR /src
COPY docker/locks/build.txt docker/locks/router.txt locks/
RUN python -m venv /opt/atelier \
 && pip install --no-cache-dir --require-hashes -r locks/build.txt \
 && /opt/atelier/bin/pip install --no-cache-dir --require-hashes -r locks/router.txt
COPY . .
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/atelier/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl

FROM ${PYTHON}
RUN useradd --system --uid 10001 --home-dir /tmp atelier
COPY --from=build /opt/atelier /opt/atelier
COPY --chmod=755 docker/probe.py /usr/local/bin/probe
ENV PATH=/opt/atelier/bin:$PATH PYTHONUNBUFFERED=1
USER atelier
WORKDIR /tmp
CMD ["python", "-m", "run.router"]
