"""Recurrent encoders: embedded tokens in, memory and final state out."""

import keras
from keras import ops

from keras_attn import backend
from keras_attn.checks import check_fraction, check_one_of, check_positive
from keras_attn.layers import cells


@keras.saving.register_keras_serializable("keras_attn")
class RNNEncoder(keras.layers.Layer):
    """A stack of GRU or LSTM layers, each read in one or both directions.

    The weights and the equations are those of `keras.layers.GRU` and
    `keras.layers.LSTM`. The input projection of all positions is one matrix product,
    and both directions run in one loop. In training on a GPU the stack runs on cuDNN
    (TensorFlow backend, which then needs a right-padded mask); inference never does, so
    that an exported graph runs anywhere.

    A masked position changes no state, and its memory row is 0.

    Args:
        units: width of one direction.
        rnn: "gru" or "lstm".
        num_layers: number of layers.
        bidirectional: whether each layer also reads from the end; the memory is then
            `2 * units` wide, forward half first.
        dropout: rate of the dropout between layers, in training.
        reset_after: GRU only; whether the reset gate is applied after the recurrent
            product (as cuDNN does) or before it (Cho et al. 2014).
        use_cudnn: "auto", True or False.

    Call arguments:
        inputs: `[B, S, E]`.
        mask: bool `[B, S]`, True = a real position; by default the mask of `inputs`.
        training: bool.

    Output:
        `(memory, final_state)`: memory `[B, S, units]` or `[B, S, 2 * units]`;
        final_state a list with one list a layer, `[h]` or for an LSTM `[h, c]`, each
        `[B, units]` or `[B, 2 * units]`.

    Reference: Cho et al. 2014 (GRU); Hochreiter & Schmidhuber 1997 (LSTM); Schuster &
    Paliwal 1997 (bidirectional).
    """

    def __init__(
        self,
        units: int,
        rnn: str = "gru",
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        reset_after: bool = True,
        use_cudnn: bool | str = "auto",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = check_positive("units", units)
        self.rnn = check_one_of("rnn", rnn, cells.CELLS)
        self.num_layers = check_positive("num_layers", num_layers)
        self.bidirectional = bidirectional
        self.dropout = check_fraction("dropout", dropout)
        self.reset_after = reset_after
        self.use_cudnn = use_cudnn
        self.supports_masking = True
        # One list a layer: the forward and, if any, the backward reader.
        self.readers = [
            [self._make_reader(layer, backward) for backward in self._directions()]
            for layer in range(num_layers)
        ]
        self.dropout_layer = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def _directions(self):
        return (False, True) if self.bidirectional else (False,)

    def _make_reader(self, layer, backward):
        options = {
            "return_sequences": True,
            "return_state": True,
            "go_backwards": backward,
            "use_cudnn": self.use_cudnn,
            "dtype": self.dtype_policy,
            "name": f"{'backward' if backward else 'forward'}_{layer}",
        }
        if self.rnn == "gru":
            options["reset_after"] = self.reset_after
            return keras.layers.GRU(self.units, **options)
        return keras.layers.LSTM(self.units, **options)

    def build(self, inputs_shape):
        width = self.units * len(self._directions())
        shape = tuple(inputs_shape)
        for readers in self.readers:
            for reader in readers:
                reader.build(shape)
            shape = (*shape[:-1], width)
        self.built = True

    def call(self, inputs, mask=None, training=False):
        run = self._run_keras if self._on_cudnn(training) else self._run_loop
        hidden, final_state = inputs, []
        for layer, readers in enumerate(self.readers):
            if layer > 0:
                hidden = self.dropout_layer(hidden, training=training)
            hidden, states = run(readers, hidden, mask, training)
            final_state.append(states)
        return hidden, final_state

    def _on_cudnn(self, training):
        if not training or self.use_cudnn is False:
            return False
        fits = self.rnn == "lstm" or self.reset_after
        return self.use_cudnn is True or (fits and backend.has_cudnn())

    def _run_keras(self, readers, inputs, mask, training):
        outputs, states = [], []
        for reader in readers:
            # go_backwards returns its outputs in the order it read.
            output, *state = reader(inputs, mask=mask, training=training)
            outputs.append(ops.flip(output, 1) if reader.go_backwards else output)
            states.append(state)
        memory = ops.concatenate(outputs, axis=-1)
        return _zero_padding(memory, mask), _join(states)

    def _run_loop(self, readers, inputs, mask, training):
        reader_cells = [reader.cell for reader in readers]
        weights = [cells.loop_weights(cell) for cell in reader_cells]

        def time_major(x, reader):
            # [S, B, ...], in the reader's order
            x = ops.swapaxes(x, 0, 1)
            return ops.flip(x, 0) if reader.go_backwards else x

        # Turned before they are projected, when they are narrower.
        xs = {
            "inputs": [
                cells.project_inputs(r.cell, time_major(inputs, r)) for r in readers
            ]
        }
        if mask is not None:
            mask = ops.cast(mask, "bool")
            xs["mask"] = [time_major(mask, r) for r in readers]

        def read(states, x, weights):
            masks = x.get("mask", [None] * len(readers))
            new = [
                cells.keep_where(m, cells.step(cell, w, projected, s), s)
                for cell, w, projected, m, s in zip(
                    reader_cells, weights, x["inputs"], masks, states, strict=True
                )
            ]
            return new, tuple(state[0] for state in new)

        batch_size = ops.shape(inputs)[0]
        init = [cells.zero_states(cell, batch_size) for cell in reader_cells]
        dtypes = tuple(cell.compute_dtype for cell in reader_cells)
        states, outputs = backend.scan(read, init, xs, dtypes, weights, training)
        outputs = [
            ops.flip(y, 0) if r.go_backwards else y
            for y, r in zip(outputs, readers, strict=True)
        ]
        memory = ops.swapaxes(ops.concatenate(outputs, axis=-1), 0, 1)
        return _zero_padding(memory, mask), _join(states)

    def compute_mask(self, inputs, previous_mask):
        # For the memory only; the final state has no time axis.
        return [previous_mask]

    def compute_output_spec(self, inputs, mask=None, training=False):
        batch, width = inputs.shape[0], self.units * len(self._directions())

        def spec(*shape):
            return keras.KerasTensor(shape, dtype=self.compute_dtype)

        count = 1 if self.rnn == "gru" else 2
        states = [
            [spec(batch, width) for _ in range(count)] for _ in range(self.num_layers)
        ]
        return spec(*inputs.shape[:-1], width), states

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "rnn": self.rnn,
            "num_layers": self.num_layers,
            "bidirectional": self.bidirectional,
            "dropout": self.dropout,
            "reset_after": self.reset_after,
            "use_cudnn": self.use_cudnn,
        }


@keras.saving.register_keras_serializable("keras_attn")
class BiGRUEncoder(RNNEncoder):
    """The bidirectional GRU encoder of Bahdanau et al.

    `RNNEncoder(units, rnn="gru", bidirectional=True)`: each memory row holds the
    forward and the backward annotation of its position.

    Args:
        units: width of one direction.
        num_layers: number of layers.
        dropout: rate of the dropout between layers, in training.
        reset_after: whether the reset gate is applied after the recurrent product (as
            cuDNN does) or before it (Cho et al. 2014, and Bahdanau et al.).
        use_cudnn: "auto", True or False.

    Call arguments:
        inputs: `[B, S, E]`.
        mask: bool `[B, S]`, True = a real position; by default the mask of `inputs`.
        training: bool.

    Output:
        `(memory, final_state)`: memory `[B, S, 2 * units]`; final_state `[[h]]` with h
        `[B, 2 * units]`.

    Example:

    >>> embedded = keras.layers.Embedding(8000, 256, mask_zero=True)(source_ids)
    >>> memory, final_state = BiGRUEncoder(256)(embedded)

    Reference: Bahdanau, Cho & Bengio 2015, section 3.2.
    """

    def __init__(
        self,
        units: int,
        num_layers: int = 1,
        dropout: float = 0.0,
        reset_after: bool = True,
        use_cudnn: bool | str = "auto",
        **kwargs,
    ):
        super().__init__(
            units,
            rnn="gru",
            num_layers=num_layers,
            bidirectional=True,
            dropout=dropout,
            reset_after=reset_after,
            use_cudnn=use_cudnn,
            **kwargs,
        )

    def get_config(self):
        config = super().get_config()
        del config["rnn"], config["bidirectional"]
        return config


def _zero_padding(memory, mask):
    if mask is None:
        return memory
    mask = ops.expand_dims(ops.cast(mask, "bool"), -1)
    return ops.where(mask, memory, ops.zeros((), memory.dtype))


def _join(states):
    """[(h, c) of each direction] -> [h, c], the directions side by side."""
    return [ops.concatenate(parts, axis=-1) for parts in zip(*states, strict=True)]
