"""Other services' APIs, spoken by existing clients, over the one way a job is accepted."""
