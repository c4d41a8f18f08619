# A worker for one GPU. The torch wheel brings its CUDA libraries; the host brings the driver.
# docker build -f docker/worker.Dockerfile .
# Without a GPU: --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu
FROM python:3.11-slim AS build
ARG TORCH_INDEX=https://pypi.org/simple
WORKDIR /src
RUN python -m venv /opt/atelier
# A layer of its own: it is large and changes rarely.
RUN /opt/atelier/bin/pip install --no-cache-dir --index-url "$TORCH_INDEX" torch==2.13.0
COPY . .
RUN /opt/atelier/bin/pip install --no-cache-dir -c constraints.txt ".[worker,profile]"

FROM python:3.11-slim
# Compiled models: Triton builds the launchers of its kernels with a C compiler.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --home-dir /tmp atelier && install -d -o atelier /data
COPY --from=build /opt/atelier /opt/atelier
COPY --chmod=755 docker/probe.py /usr/local/bin/probe
ENV PATH=/opt/atelier/bin:$PATH PYTHONUNBUFFERED=1 HF_HOME=/tmp/hf
# Kernels outlast a restart where /data is a volume.
ENV TORCHINDUCTOR_CACHE_DIR=/data/inductor
USER atelier
WORKDIR /tmp
CMD ["python", "-m", "run.worker"]
