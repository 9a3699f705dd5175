"""Encodings of items with features: the fast ways are the plain ones."""

import pytest
import torch

import gfn4rec.nn.entity_encoder as module
from gfn4rec.nn.entity_encoder import EntityEncoder
from gfn4rec.schema import FeatureTensors

FEATURES = FeatureTensors(
    categorical={"kind": torch.tensor([0, 1, 2, 3, 1, 2])},
    multi={"tag": torch.tensor([[0, 0], [2, 3], [2, 0], [0, 0], [4, 4], [3, 0]])},
    numeric={"length": torch.tensor([0.0, 1.0, -1.0, 0.5, 2.0, 0.0])},
    num_values={"kind": 4, "tag": 5},
)


def new_encoder() -> EntityEncoder:
    torch.manual_seed(0)
    return EntityEncoder(5, FEATURES, embedding_dim=4, dim=6)


def test_by_hand() -> None:
    """Each part normalised, mapped, summed, normalised."""
    encoder = new_encoder()
    with torch.no_grad():
        for item in range(6):
            tags = [tag for tag in FEATURES.multi["tag"][item].tolist() if tag]
            bag = encoder.multi["tag"].weight
            assert isinstance(bag, torch.Tensor)
            parts = [
                encoder.id_embedding.weight[item],
                encoder.categorical["kind"](FEATURES.categorical["kind"][item]),
                bag[tags].mean(dim=0) if tags else torch.zeros(4),
                encoder.numeric["length"](FEATURES.numeric["length"][item : item + 1]),
            ]
            mapped = [encoder.kernel(encoder.embedding_norm(part)) for part in parts]
            expected = encoder.norm(torch.stack(mapped).sum(dim=0))
            torch.testing.assert_close(encoder.table()[item], expected, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(encoder(torch.tensor([item]))[0], expected, atol=1e-5, rtol=1e-5)


def test_short_id_embeddings_leave_the_encoding_to_the_features() -> None:
    """Items 2 and 5 here have the same features; only their ids tell them apart."""
    alike = FeatureTensors({"kind": torch.tensor([0, 1, 2, 3, 1, 2])}, {}, {}, {"kind": 4})
    distances, drawn = [], []
    for deviation in (0.1, 1e-4):
        torch.manual_seed(0)
        encoder = EntityEncoder(5, alike, embedding_dim=4, dim=6, id_deviation=deviation)
        table_ND = encoder.table().detach()
        distances.append(float((table_ND[2] - table_ND[5]).norm()))
        drawn.append(encoder.id_embedding.weight.detach() / deviation)
        assert float((table_ND[2] - table_ND[1]).norm()) > 0.5
    assert distances[1] < 0.1 < 0.5 < distances[0]
    torch.testing.assert_close(drawn[0], drawn[1])  # the same random numbers


def test_many_values_are_looked_up_and_few_multiplied_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    few = new_encoder()
    monkeypatch.setattr(module, "_MOST_SHARES", 0)
    many = new_encoder()
    assert few.state_dict().keys() == many.state_dict().keys()
    index = torch.tensor([[4, 1], [3, 2]])
    results = []
    for encoder in (few, many):
        encoding = torch.cat([encoder.table(), encoder(index).flatten(0, 1)])
        gradients = torch.autograd.grad(encoding.square().sum(), list(encoder.multi.parameters()))
        results.append((encoding, *gradients))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
