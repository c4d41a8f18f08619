"""Assign models to workers, and route each job to a queue and an approximation level.

What decides is pure. The planning loop, the service, the profile reader and the approximate cache
do I/O.
"""
