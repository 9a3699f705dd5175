"""Requests generated from the service's own description, right and wrong ones: none makes it fail.

`benchmarks/fuzz_live.py` sends 20,000 and more.
"""

from fuzz_harness import Generator
from fuzz_live import fuzzed

from tests.live.http.conftest import NewHost

NUM_REQUESTS = 1_000


def test_no_generated_request_makes_the_service_fail(new_host: NewHost) -> None:
    """Each answer has a status and a body that the description names, too; every operation has some good ones."""
    report = fuzzed(new_host(wait=1.0), NUM_REQUESTS, seed=1)
    assert report.faults == []
    assert report.total == NUM_REQUESTS
    good = {(method, path) for method, path, status in report.statuses if status < 300}
    refused = {(method, path) for method, path, status in report.statuses if 400 <= status < 500}
    with_input = {"/v1/recommend", "/v1/feedback", "/v1/shown", "/v1/items/{item_id}"}
    assert {path for _, path in good} >= with_input | {"/v1/items", "/v1/users", "/v1/versions", "/readyz"}
    assert {path for _, path in refused} >= with_input


def test_requests_are_the_same_for_the_same_seed() -> None:
    schema = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    body = {"content": {"application/json": {"schema": schema}}}
    description = {
        "components": {"schemas": {}},
        "paths": {"/a": {"post": {"requestBody": body, "responses": {200: {}}}}},
    }
    one, same, other = (Generator(description, {}, seed) for seed in (0, 0, 1))
    requests = [one.next() for _ in range(50)]
    assert requests == [same.next() for _ in range(50)]
    assert requests != [other.next() for _ in range(50)]
