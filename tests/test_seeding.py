import numpy as np
import torch

from gfn4rec.seeding import numpy_generator, stream_seed, torch_generator


def test_streams_depend_on_seed_and_name_only() -> None:
    # Written down once: a change of this number would silently change every result.
    assert stream_seed(0, "policy") == 9182047540165156489
    assert len({stream_seed(seed, name) for seed in range(50) for name in ("policy", "environment")}) == 100


def test_generators_repeat_themselves() -> None:
    assert torch.equal(
        torch.rand(5, generator=torch_generator(1, "a")), torch.rand(5, generator=torch_generator(1, "a"))
    )
    assert not torch.equal(
        torch.rand(5, generator=torch_generator(1, "a")), torch.rand(5, generator=torch_generator(1, "b"))
    )
    assert np.array_equal(numpy_generator(1, "a").random(5), numpy_generator(1, "a").random(5))
