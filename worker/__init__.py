"""The worker: engine, model families and the Celery process that turn jobs into images."""
