"""The count of operations against counts by hand."""

from benchmarks import flops

SMALL = flops.Sizes(target_vocabulary=7, embedding=2, encoder=3, decoder=5)


def test_one_sentence_of_one_token():
    products = [  # rows, inner size, columns
        *[(1, 2, 9), (1, 3, 9)] * 2,  # gates of the encoder, both directions
        (1, 6, 5),  # keys
        (1, 6, 5),  # bridge
        (1, 5, 5),  # query
        (1, 5, 1),  # score
        (1, 1, 6),  # context
        (1, 2, 15),  # gates of the decoder: token, context, state
        (1, 6, 15),
        (1, 5, 15),
        (1, 13, 5),  # readout of state, context and token
        (1, 5, 7),  # output layer
    ]
    expected = sum(2 * m * k * n for m, k, n in products)
    assert expected == 962
    assert flops.forward_flops(SMALL, batch=1, source=1, target=1) == 962


def test_each_length_counts_where_it_matters():
    # Multiplications a source position 90 + 30, a target position 25 + 195 + 65 + 35,
    # a pair of positions 5 + 6, a sentence 30.
    expected = 2 * 2 * (3 * 120 + 4 * 320 + 12 * 11 + 30)
    assert flops.forward_flops(SMALL, batch=2, source=3, target=4) == expected == 7208


def test_training_has_two_more_products_for_each():
    assert flops.training_flops(SMALL, batch=2, source=3, target=4) == 3 * 7208


def test_the_training_step_of_the_benchmark():
    # 1,024 positions on either side; the output layer alone has 12.6 of them.
    giga = flops.training_flops(flops.Sizes(8000), 64, 16, 16) / 1e9
    assert round(giga, 1) == 25.2


def test_the_measured_peak_is_a_speed():
    # From a slow machine's to far above a fast one's.
    assert 1e7 < flops.measure_peak("float32", size=64, seconds=0.01) < 1e15
