"""What travels through the queues: the doorbell of a job, webhooks, and who looks after both."""
