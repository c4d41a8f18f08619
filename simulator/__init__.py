"""The service in virtual time: the scheduler's own code over a model of its workers."""
