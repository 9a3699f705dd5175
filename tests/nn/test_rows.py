"""Rows of tables of items: hidden ones are 0, new ones follow the old."""

import torch

from gfn4rec.nn.entity_encoder import EntityEncoder
from gfn4rec.nn.rows import add_rows, hide_rows
from tests.nn.test_entity_encoder import FEATURES, new_encoder


def test_by_hand() -> None:
    table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    hidden = hide_rows(table, torch.tensor([False, True, False]))
    assert hidden.tolist() == [[1.0, 2.0], [0.0, 0.0], [5.0, 6.0]]
    assert hide_rows(table, None) is table
    assert add_rows(table, 5).tolist() == [*table.tolist(), [0.0, 0.0], [0.0, 0.0]]
    assert add_rows(table[:, 0], 4).tolist() == [1.0, 3.0, 5.0, 0.0]
    assert add_rows(torch.tensor([7, 8]), 3).tolist() == [7, 8, 0]


def test_a_hidden_item_is_encoded_by_its_features() -> None:
    encoder = new_encoder()
    is_hidden_N = torch.tensor([False, False, True, False, False, True])
    table_ND = encoder.table(is_hidden_N)
    without = EntityEncoder(5, FEATURES, embedding_dim=4, dim=6)
    without.load_state_dict(encoder.state_dict())
    with torch.no_grad():
        without.id_embedding.weight.zero_()
    assert torch.equal(table_ND[is_hidden_N], without.table()[is_hidden_N])
    assert torch.equal(table_ND[~is_hidden_N], encoder.table()[~is_hidden_N])
    table_ND.square().sum().backward()
    gradient = encoder.id_embedding.weight.grad
    assert gradient is not None
    assert (gradient[1:] != 0).any(dim=1).tolist() == [True, False, True, True, False]
