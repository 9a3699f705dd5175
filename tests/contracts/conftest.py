"""Policies with moved weights, and requests for them."""

import pytest

from gfn4rec.policies import POLICIES
from gfn4rec.policies.base import Policy
from gfn4rec.schema import Request
from tests.small_catalogue import make_catalogue, make_requests, stirred


@pytest.fixture(params=list(POLICIES))
def policy(request: pytest.FixtureRequest) -> Policy:
    return stirred(request.param, make_catalogue(num_items=70))


@pytest.fixture
def requests(policy: Policy) -> Request:
    return make_requests(policy.catalogue, 40)
