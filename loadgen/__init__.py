"""Load generator: send requests of many clients to a running service, report the results."""
