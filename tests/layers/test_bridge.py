import keras
import numpy as np
import pytest

from keras_attn.layers import Bridge
from tests.layers.layer_checks import check_layer, set_weights, to_numpy

STATES = [[np.ones((2, 3), "float32"), np.full((2, 3), 2.0, "float32")]]


def test_dense_by_hand():
    bridge = Bridge(1)
    bridge.build([[(None, 2)]])
    set_weights(bridge, [[1.0], [0.5]], [0.1])
    [[state]] = bridge([[np.array([[0.2, 0.4]])]])
    np.testing.assert_allclose(to_numpy(state), [[np.tanh(0.5)]], atol=1e-6)


def test_more_decoder_layers_start_from_the_last_encoder_layer():
    bridge = Bridge(3, num_layers=2, kind="pass")
    states = bridge(STATES)
    assert len(states) == 2
    for layer in states:
        np.testing.assert_array_equal(to_numpy(layer[0]), STATES[0][0])
        np.testing.assert_array_equal(to_numpy(layer[1]), STATES[0][1])


def test_every_layer_and_state_has_weights_of_its_own(tmp_path):
    inputs = [keras.Input((3,)), keras.Input((3,))]
    bridge = Bridge(4, num_layers=2)
    model = keras.Model(inputs, bridge([inputs]))
    check_layer(model, STATES[0], tmp_path / "m.keras", bridge, 8)


def test_pass_needs_equal_widths():
    with pytest.raises(ValueError, match="encoder state .3. wide, decoder 5 wide"):
        Bridge(5, kind="pass")(STATES)


def test_a_bad_kind_is_named():
    with pytest.raises(ValueError, match="`kind`.*'dense', 'pass'.*kind='zero'"):
        Bridge(5, kind="zero")
