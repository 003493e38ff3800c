"""From the encoder's final state to the decoder's first."""

import keras
from keras import ops

from keras_attn.checks import check_one_of, check_positive
from keras_attn.layers import cells

KINDS = ("dense", "pass")


@keras.saving.register_keras_serializable("keras_attn")
class Bridge(keras.layers.Layer):
    """Makes the first state of an `AttentionDecoder` from an encoder's final state.

    Layer i of the decoder starts from layer i of the encoder; where the encoder has
    fewer layers, the remaining ones start from its last. "dense" computes
    `tanh(W state + b)` with weights of its own for every layer and state tensor, so the
    sizes may differ; "pass" hands the state over as it is. To start from zeros, give
    the decoder no initial state.

    Args:
        units: width of the decoder's cells.
        num_layers: number of the decoder's layers.
        kind: "dense" or "pass".

    Call arguments:
        states: the encoder's `final_state`, a list with one list a layer of `[B, D]`.

    Output:
        A list with one list a layer of `[B, units]`.

    Reference: Bahdanau, Cho & Bengio 2015, appendix A.2.2: s_0 = tanh(W_s h_1).
    """

    def __init__(self, units: int, num_layers: int = 1, kind: str = "dense", **kwargs):
        super().__init__(**kwargs)
        self.units = check_positive("units", units)
        self.num_layers = check_positive("num_layers", num_layers)
        self.kind = check_one_of("kind", kind, KINDS)
        self.denses: list[list[keras.layers.Dense]] = []

    def build(self, states_shape):
        shapes = self._one_a_layer(states_shape)
        if self.kind == "dense":
            self.denses = [
                [self._make_dense(s, f"dense_{i}_{j}") for j, s in enumerate(layer)]
                for i, layer in enumerate(shapes)
            ]
        widths = {shape[-1] for layer in shapes for shape in layer}
        if self.kind == "pass" and widths != {self.units}:
            raise ValueError(
                'Bridge kind "pass" needs an encoder state as wide as the decoder. '
                f"Received: encoder state {sorted(widths)} wide, decoder {self.units} "
                'wide. Use kind "dense", or make the widths equal.'
            )
        self.built = True

    def _make_dense(self, shape, name):
        # Named, as Keras would number them by what else the process has made.
        dense = keras.layers.Dense(
            self.units, activation="tanh", dtype=self.dtype_policy, name=name
        )
        dense.build(shape)
        return dense

    def _one_a_layer(self, states):
        return [states[min(i, len(states) - 1)] for i in range(self.num_layers)]

    def call(self, states):
        layers = self._one_a_layer(states)
        if self.kind == "pass":
            return [list(layer) for layer in layers]
        return [
            [dense(state) for dense, state in zip(denses, layer, strict=True)]
            for denses, layer in zip(self.denses, layers, strict=True)
        ]

    def compute_output_spec(self, states):
        def spec(state):
            return keras.KerasTensor((state.shape[0], self.units), self.compute_dtype)

        return [[spec(s) for s in layer] for layer in self._one_a_layer(states)]

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "num_layers": self.num_layers,
            "kind": self.kind,
        }


def check_states(states, decoder_cells):
    """`states` as a list of tuples in the cells' dtype, one a layer.

    Raises:
        ValueError: where the number of layers or of state tensors differs.
    """
    expected = [cells.num_states(cell) for cell in decoder_cells]
    received = [len(layer) for layer in states]
    if expected != received:
        raise ValueError(
            "Invalid value for argument `initial_state`. Expected one list a layer "
            f"with {expected} state tensors. Received: {received}. `Bridge` makes a "
            "decoder state from an encoder's final state."
        )
    return [
        tuple(ops.cast(state, cell.compute_dtype) for state in layer)
        for layer, cell in zip(states, decoder_cells, strict=True)
    ]
