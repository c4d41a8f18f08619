"""One ControlNet worker as a process that reads offers from a pipe in place of a queue."""

import threading

import torch
from diffusers import ControlNetModel

from worker.control.network import Network
from worker.control.residents import Residents
from worker.control.server import ControlServer

assert ControlNetModel  #: imported once, in the process that workers are forked from


def run(folder, offers, ended):
    """Serve what comes through `offers` until None does; say in `ended` how each session ended."""
    torch.set_num_threads(1)
    load = lambda name: Network.load(folder / name, device="cpu", dtype="float32")  # noqa: E731
    server = ControlServer(Residents(load, 2**30), max_rows=16)
    server.start()
    while (offer := offers.recv()) is not None:
        threading.Thread(target=_serve, args=(server, offer, ended), daemon=True).start()
    server.close()


def _serve(server, offer, ended):
    try:
        ended.put(server.serve(offer))
    except Exception as error:
        ended.put(str(error))
