# The HTTP front: no torch, no GPU. docker build -f docker/api.Dockerfile .
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/atelier
COPY . .
RUN /opt/atelier/bin/pip install --no-cache-dir -c constraints.txt ".[api,router]"

FROM python:3.11-slim
RUN useradd --system --uid 10001 --home-dir /tmp atelier && install -d -o atelier /data
COPY --from=build /opt/atelier /opt/atelier
COPY --chmod=755 docker/probe.py /usr/local/bin/probe
ENV PATH=/opt/atelier/bin:$PATH PYTHONUNBUFFERED=1
USER atelier
WORKDIR /tmp
CMD ["python", "-m", "run.api"]
