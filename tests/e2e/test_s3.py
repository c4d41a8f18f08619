import re

import httpx
import pytest

from atelier_client import JobStatus
from cli.client.options import connect
from cli.stack.running import running
from tests.e2e.lean import NO_CONTROLNETS
from tests.e2e.waiting import make
from tests.servers import S3_ACCESS_KEY, S3_SECRET_KEY, s3_server

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def test_with_an_object_store_clients_fetch_images_from_it_directly(tmp_path):
    server = s3_server(tmp_path)
    env = NO_CONTROLNETS | {
        "ATELIER_OBJECT_BACKEND": "s3",
        "ATELIER_S3_ENDPOINT": server.url,
        "ATELIER_S3_ACCESS_KEY": S3_ACCESS_KEY,
        "ATELIER_S3_SECRET_KEY": S3_SECRET_KEY,
    }
    try:
        with running(tmp_path / "data", env=env) as service:
            with connect(service.addresses.api, None) as client:
                job = make(client)
                (image,) = job.images
                assert job.status is JobStatus.SUCCEEDED
                assert image.url.startswith(f"http://{server.url}/atelier/")
                assert client.images.fetch(image).startswith(b"\x89PNG")
            changed = re.sub(r"X-Amz-Signature=.", "X-Amz-Signature=x", image.url)
            assert httpx.get(changed).status_code in (400, 403)
            assert not (tmp_path / "data" / "objects").exists()
    finally:
        server.stop()
