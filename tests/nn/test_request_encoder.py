"""The encoders: what must and what must not change an encoding."""

import pytest
import torch

from gfn4rec.nn.entity_encoder import EntityEncoder
from gfn4rec.nn.request_encoder import RequestEncoder, RequestEncoderConfig
from gfn4rec.schema import FeatureTensors, Request

NUM_USERS, NUM_ITEMS, NUM_BEHAVIOURS = 5, 20, 3


def features(num_entities: int) -> FeatureTensors:
    generator = torch.Generator().manual_seed(1)
    rows = num_entities + 1

    def draw(*shape: int) -> torch.Tensor:
        return torch.randint(1, 4, shape, generator=generator)

    tags = draw(rows, 2)
    tags[:, 1] = 0
    return FeatureTensors({"kind": draw(rows)}, {"tags": tags}, {"size": torch.randn(rows)}, {"kind": 4, "tags": 4})


@pytest.fixture
def encoder() -> RequestEncoder:
    torch.manual_seed(0)
    config = RequestEncoderConfig(
        dim=8, embedding_dim=4, num_heads=2, feedforward_dim=16, state_dim=12, history_length=6
    )
    return RequestEncoder(NUM_USERS, NUM_ITEMS, NUM_BEHAVIOURS, features(NUM_USERS), features(NUM_ITEMS), config).eval()


def request(lengths: list[int], width: int = 6, align: str = "right") -> Request:
    """Histories of these lengths; event t of a request is always the same, wherever it stands."""
    history = torch.zeros(len(lengths), width, dtype=torch.int64)
    response = torch.zeros(len(lengths), width, NUM_BEHAVIOURS)
    for row, length in enumerate(lengths):
        events = torch.arange(1, length + 1) + row
        responses = torch.stack([(events * (b + 2)) % 3 == 0 for b in range(NUM_BEHAVIOURS)], dim=1).float()
        place = slice(width - length, width) if align == "right" else slice(0, length)
        history[row, place], response[row, place] = events, responses
    return Request(torch.arange(1, len(lengths) + 1), history, response)


def test_padding_does_not_change_the_state(encoder: RequestEncoder) -> None:
    lengths = [0, 1, 3, 4]
    states = [encoder(request(lengths, width)) for width in (4, 5, 6)]
    for other in states[1:]:
        torch.testing.assert_close(states[0], other, atol=1e-6, rtol=0)
    assert torch.isfinite(states[0]).all()


def test_of_a_longer_history_the_latest_events_count(encoder: RequestEncoder) -> None:
    long = request([9], width=9)
    latest = Request(long.user_B, long.history_BH[:, -6:], long.response_BHR[:, -6:])
    torch.testing.assert_close(encoder(long), encoder(latest))


def test_what_padding_answers_does_not_matter(encoder: RequestEncoder) -> None:
    plain = request([2, 0])
    noisy = Request(plain.user_B, plain.history_BH, plain.response_BHR.clone())
    noisy.response_BHR[plain.history_BH == 0] = 1.0
    torch.testing.assert_close(encoder(plain), encoder(noisy))


def test_every_position_of_a_sequence_has_the_state_of_its_prefix(encoder: RequestEncoder) -> None:
    whole = encoder.prefixes(request([6, 4], align="left"))
    for row, length in ((0, 6), (1, 4)):
        for prefix in range(length + 1):
            lengths = [0, 0]
            lengths[row] = prefix
            alone = encoder(request(lengths))[row]
            torch.testing.assert_close(whole[row, prefix], alone, atol=1e-5, rtol=0)


def test_the_last_position_alone_equals_the_whole_pass(encoder: RequestEncoder) -> None:
    asked = request([0, 2, 6, 5])
    torch.testing.assert_close(encoder(asked), encoder.prefixes(asked)[:, -1], atol=1e-6, rtol=0)


def test_a_later_event_cannot_change_an_earlier_position(encoder: RequestEncoder) -> None:
    before = request([6], align="left")
    after = Request(before.user_B, before.history_BH.clone(), before.response_BHR.clone())
    after.history_BH[0, 4] = 19
    after.response_BHR[0, 4] = 1 - after.response_BHR[0, 4]
    first, second = encoder.prefixes(before)[0], encoder.prefixes(after)[0]
    assert torch.equal(first[:5], second[:5])
    assert not torch.allclose(first[5], second[5])
    assert not torch.allclose(first[6], second[6])


def test_order_behaviours_users_and_items_change_the_state(encoder: RequestEncoder) -> None:
    base = request([4, 4])
    state = encoder(base)
    assert not torch.allclose(state[0], state[1])
    permuted = Request(base.user_B, base.history_BH, base.response_BHR[:, :, [1, 0, 2]])
    assert not torch.allclose(encoder(permuted), state)
    swapped = Request(base.user_B, base.history_BH[:, [0, 1, 3, 2, 4, 5]], base.response_BHR[:, [0, 1, 3, 2, 4, 5]])
    assert not torch.allclose(encoder(swapped), state)
    unknown = Request(torch.zeros_like(base.user_B), base.history_BH, base.response_BHR)
    assert torch.isfinite(encoder(unknown)).all()
    assert not torch.allclose(encoder(unknown), state)


def test_a_table_of_items_may_be_given(encoder: RequestEncoder) -> None:
    asked = request([3, 6])
    torch.testing.assert_close(encoder(asked), encoder(asked, encoder.items.table()))


def test_gradients_are_finite_and_the_padding_vector_stays_zero(encoder: RequestEncoder) -> None:
    encoder.train()
    encoder(request([0, 6])).square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in encoder.parameters() if p.grad is not None)
    grad = encoder.items.id_embedding.weight.grad
    assert grad is not None
    assert torch.equal(grad[0], torch.zeros(4))
    assert torch.equal(encoder.users.id_embedding.weight[0], torch.zeros(4))


def test_entities_are_encoded_alike_one_by_one_and_all_at_once() -> None:
    torch.manual_seed(0)
    encoder = EntityEncoder(NUM_ITEMS, features(NUM_ITEMS), 4, 8)
    few = torch.tensor([[3, 7], [1, 0]])
    torch.testing.assert_close(encoder(few), encoder.table()[few])
    many = torch.arange(NUM_ITEMS + 1).repeat(2)
    torch.testing.assert_close(encoder(many), encoder.table()[many])
    assert set(encoder.state_dict()).isdisjoint({"categorical_values_kind", "multi_values_tags"})  # data, not weights
    by_kind = encoder.categorical_values_kind
    encoder.categorical_values_kind = torch.ones_like(by_kind)  # type: ignore[arg-type]
    changed = (encoder.table() != encoder(torch.arange(NUM_ITEMS + 1))).any()
    assert not changed


def test_id_embeddings_of_users_and_items_start_with_the_given_deviation() -> None:
    config = RequestEncoderConfig(id_deviation=1e-6)
    users, items = features(NUM_USERS), features(NUM_ITEMS)
    encoder = RequestEncoder(NUM_USERS, NUM_ITEMS, NUM_BEHAVIOURS, users, items, config)
    for entities in (encoder.users, encoder.items):
        assert 0 < float(entities.id_embedding.weight.detach().abs().max()) < 1e-5
