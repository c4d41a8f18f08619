"""A ControlNet worker as a process that reads offers from a pipe, and a base worker that makes one.

A pipe is in place of the queue.
"""

import threading
import time

import torch
from diffusers import ControlNetModel

from worker.control.client.remote import RemoteControlNets
from worker.control.server.load_network import load_network
from worker.control.server.model_cache import ModelCache
from worker.control.server.server import ControlServer
from worker.control.session import Opening

assert ControlNetModel  #: imported once, in the process that workers are forked from


def run(folder, offers, ended, load_s):
    """Serve what comes through `offers` until None does; say in `ended` how each session ended."""
    torch.set_num_threads(1)

    def load(name):
        time.sleep(load_s)
        return load_network(folder / name, device="cpu", dtype="float32")

    server = ControlServer(ModelCache(load, 2**30), max_rows=16)
    server.start()
    offers.send("it reads offers")
    while (offer := offers.recv()) is not None:
        threading.Thread(target=_serve, args=(server, offer, ended), daemon=True).start()
    server.close()


def hold(told):
    """Open a session and never end it; what is told is its offer, then that it has begun."""
    remote = RemoteControlNets(told.send, arena_bytes=2**20, patience_s=60.0)
    session = remote.open(an_opening())
    while session.waits_for() is not None:
        time.sleep(0.002)
    told.send("it has begun")
    time.sleep(600)


def an_opening():
    return Opening(
        controlnet="edges",
        condition=torch.zeros(32, 32, 3, dtype=torch.uint8),
        text=torch.zeros(1, 4, 64),
        added={},
    )


def _serve(server, offer, ended):
    try:
        ended.put(server.serve(offer))
    except Exception as error:
        ended.put(str(error))
