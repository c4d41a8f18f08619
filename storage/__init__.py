"""Persistence: jobs, plans, fleet and webhooks in Redis; images in an object store."""
