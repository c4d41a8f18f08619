"""The client knows every field that the service has, and no other."""

import typing

import msgspec
import pytest

from api.intake.schemas import (
    ControlUse,
    EmbeddingUse,
    IpAdapterUse,
    JobCreate,
    LoraUse,
    SecondPassCreate,
    WebhookCreate,
)
from api.routes.applications import ApplicationView
from api.routes.controlnets import ControlNetView
from api.routes.loras import LoraView
from api.routes.operators.fleet import (
    FleetView,
    PasmView,
    PlanView,
    QueueView,
    WarmingView,
    WorkerView,
)
from api.routes.operators.history import HistoryView, PeriodView
from api.routes.tenants.audit import AuditView
from api.routes.tenants.keys import NewKeyView
from api.routes.tenants.secrets import SecretView, UrlsRevoked
from api.routes.tenants.tenants import LimitsView, TenantChange, TenantView
from api.routes.tenants.usage import EndsView, UsageRow, UsageView
from api.routes.uploads import UploadView
from api.routes.webhooks import WebhookView
from api.routes.words.embeddings import EmbeddingView
from api.routes.words.ip_adapters import IpAdapterView
from api.services.scopes import NEEDED
from api.views.model_view import ModelView, SizesView, StepsView, WeightsView
from api.views.responses import (
    ControlShown,
    EmbeddingShown,
    FailureView,
    FieldProblem,
    ImageView,
    IpAdapterShown,
    JobView,
    LoraShown,
    PlacementView,
    Problem,
    ProgressView,
    TimingView,
    UrlsView,
)
from atelier_client import Client, errors
from atelier_client.resources.operated import Service
from atelier_client.types import job, kept, request, service, tenant

READ = [
    (JobView, job.Job),
    (ImageView, job.Image),
    (LoraShown, job.LoraShown),
    (EmbeddingShown, job.EmbeddingShown),
    (ControlShown, job.ControlShown),
    (IpAdapterShown, job.IpAdapterShown),
    (ProgressView, job.Progress),
    (PlacementView, job.Placement),
    (FailureView, job.Failure),
    (TimingView, job.Timing),
    (UrlsView, job.JobUrls),
    (Problem, errors.Problem),
    (FieldProblem, errors.FieldProblem),
    (UploadView, kept.Upload),
    (LoraView, kept.Lora),
    (EmbeddingView, kept.Embedding),
    (ControlNetView, kept.ControlNet),
    (IpAdapterView, kept.IpAdapter),
    (ApplicationView, kept.Application),
    (ModelView, service.Model),
    (SizesView, service.Sizes),
    (StepsView, service.Steps),
    (WeightsView, service.Weights),
    (WarmingView, service.Loading),
    (WorkerView, service.Worker),
    (QueueView, service.Queue),
    (PasmView, service.PlanRow),
    (PeriodView, service.Period),
    (NewKeyView, tenant.Key),
    (TenantView, tenant.Tenant),
    (EndsView, tenant.Ends),
    (UsageRow, tenant.Used),
    (LimitsView, tenant.TenantLimits),
    (WebhookView, service.DeadWebhook),
]
READ_OF_SERVICE = [
    (FleetView, service.Fleet),
    (PlanView, service.Plan),
    (HistoryView, service.History),
    (UsageView, tenant.Usage),
    (AuditView, tenant.NotedAct),
    (SecretView, tenant.TenantSecret),
    (UrlsRevoked, tenant.RevokedUrls),
]
SENT = [
    (LoraUse, request.LoraUse),
    (EmbeddingUse, request.EmbeddingUse),
    (ControlUse, request.ControlUse),
    (IpAdapterUse, request.IpAdapterUse),
    (SecondPassCreate, request.SecondPass),
    (WebhookCreate, request.Webhook),
]
#: Parameters of `jobs.create` beside the fields of every job.
NAMED = {"prompt", "task", "template", "mask", "image"}


@pytest.mark.parametrize(("theirs", "ours"), READ, ids=lambda kind: kind.__name__)
def test_what_is_read_has_the_fields_that_are_answered(theirs, ours):
    assert {each.name for each in msgspec.structs.fields(ours)} == set(theirs.model_fields)


def test_a_fleet_a_plan_and_a_history_have_the_fields_that_are_answered():
    for theirs, ours in READ_OF_SERVICE:
        known = {each.name for each in msgspec.structs.fields(ours)}
        assert known == set(theirs.model_fields) - {"object"}


@pytest.mark.parametrize(("theirs", "ours"), SENT, ids=lambda kind: kind.__name__)
def test_what_is_sent_has_the_fields_that_are_taken(theirs, ours):
    assert set(typing.get_type_hints(ours)) == set(theirs.model_fields)
    required = {name for name, field in theirs.model_fields.items() if field.is_required()}
    assert ours.__required_keys__ == required


def test_a_tenant_may_be_changed_in_all_that_is_taken():
    assert set(typing.get_type_hints(tenant.TenantChange)) == set(TenantChange.model_fields)


def test_a_job_may_be_asked_for_all_that_is_taken():
    assert set(typing.get_type_hints(request.JobFields)) | NAMED == set(JobCreate.model_fields)


def test_the_words_of_a_field_are_those_that_are_taken():
    ours = typing.get_type_hints(request.JobFields)
    for name in ("prompt_syntax", "sigma_spacing", "output_format", "quality", "priority"):
        (words, _) = typing.get_args(ours[name])
        theirs = JobCreate.model_fields[name].annotation
        (theirs, *_) = typing.get_args(theirs) or (theirs,)
        assert set(typing.get_args(words)) == {each.value for each in theirs}, name


def test_every_route_of_a_tenant_or_an_operator_can_be_asked():
    """Facades are for others' clients."""
    client = Client()
    resources = {name for name in vars(client) if not name.startswith("_")}
    routes = {path.split("/")[2] for _, path in map(str.split, NEEDED) if path.startswith("/v1/")}
    beside = {"predictions", "urls"}  # those of `secrets`
    spelt = {name.replace("_", "-") for name in resources}
    assert routes - beside - spelt == {name for name in vars(Service) if not name.startswith("_")}
