"""All resources of a service, over one client."""

from typing import Generic

from atelier_client.exchange.endpoints import RunnerT
from atelier_client.resources.images import Images
from atelier_client.resources.jobs import Jobs
from atelier_client.resources.kept import (
    ControlNets,
    Embeddings,
    Files,
    IpAdapters,
    Loras,
    Templates,
)
from atelier_client.resources.operated import Applications, ServedModels, Service, Webhooks
from atelier_client.resources.tenants import Keys, Secrets, Tenants


class Resources(Generic[RunnerT]):
    """What can be asked of a service."""

    def __init__(self, runner: RunnerT) -> None:
        """Ask all of it by one runner."""
        self.images = Images(runner)
        self.jobs = Jobs(runner)
        self.files = Files(runner)
        self.templates = Templates(runner)
        self.loras = Loras(runner)
        self.embeddings = Embeddings(runner)
        self.controlnets = ControlNets(runner)
        self.ip_adapters = IpAdapters(runner)
        self.models = ServedModels(runner)
        self.applications = Applications(runner)
        self.tenants = Tenants(runner)
        self.keys = Keys(runner)
        self.secrets = Secrets(runner)
        self.webhooks = Webhooks(runner)
        self.service = Service(runner)
