"""Celery app, tasks and messages: jobs, webhooks, scoring, retraining and upkeep."""
