"""Opening an S3 store: whoever opens one for each webhook opens one client in all."""

from storage.objects.s3 import client_of


def test_the_client_of_a_server_and_a_key_is_opened_once():
    ours = client_of("http://here:9000", "ours", "secret")
    assert client_of("http://here:9000", "ours", "secret") is ours
    assert client_of("http://here:9000", "theirs", "secret") is not ours
    assert client_of("http://there:9000", "ours", "secret") is not ours
