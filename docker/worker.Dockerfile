# A worker for one GPU. The torch wheel brings its CUDA libraries; the host brings the driver.
# docker build -f docker/worker.Dockerfile .
# Without a GPU: the image of cpu.Dockerfile runs the same command.
# What is installed is pinned by hash (`make locks`). The base: see docs/supply-chain.md.
ARG PYTHON=python:3.11-slim
FROM ${PYTHON} AS build
WORKDIR /src
COPY docker/locks/build.txt docker/locks/worker.txt locks/
RUN python -m venv /opt/atelier \
 && pip install --no-cache-dir --require-hashes -r locks/build.txt \
 && /opt/atelier/bin/pip install --no-cache-dir --require-hashes -r locks/worker.txt
COPY . .
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/atelier/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl

FROM ${PYTHON}
# Triton builds the launchers of its kernels with a C compiler.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --home-dir /tmp atelier && install -d -o atelier /data
COPY --from=build /opt/atelier /opt/atelier
COPY --chmod=755 docker/probe.py /usr/local/bin/probe
ENV PATH=/opt/atelier/bin:$PATH PYTHONUNBUFFERED=1 HF_HOME=/tmp/hf
# Kernels outlast a restart where /data is a volume.
ENV TORCHINDUCTOR_CACHE_DIR=/data/inductor TRITON_CACHE_DIR=/data/triton
USER atelier
WORKDIR /tmp
CMD ["python", "-m", "run.worker"]
