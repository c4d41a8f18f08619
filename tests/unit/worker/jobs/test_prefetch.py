"""Whose LoRAs are asked for before their jobs are claimed."""

from core.uploads.lora import AppliedLora
from tests.jobs import a_request
from worker.jobs.prefetch import with_room


def asking(*names, model="tiny", size_bytes=100):
    loras = tuple(
        AppliedLora(id=name, key=name, models=(model,), size_bytes=size_bytes, sha256="ab")
        for name in names
    )
    return a_request(model=model, loras=loras)


def test_loras_of_the_first_jobs_have_room_and_others_wait():
    requests = [asking("a", "b"), asking("c", size_bytes=200), asking("d"), asking("e")]
    assert [has for _, has in with_room(requests, 300)] == [True, False, True, False]
    assert [request for request, _ in with_room(requests, 300)] == requests


def test_a_lora_of_several_jobs_takes_room_once_for_each_model():
    requests = [asking("a"), asking("a"), asking("a", model="other"), asking("a", "b")]
    assert [has for _, has in with_room(requests, 200)] == [True, True, True, False]


def test_what_asks_for_no_lora_needs_no_room():
    assert [has for _, has in with_room([asking("a"), a_request()], 0)] == [False, True]
