"""The attention decoder: a recurrent stack, an attention mechanism and a readout."""

from typing import Any

import keras
from keras import ops

from keras_attn import backend
from keras_attn.backend import product
from keras_attn.checks import check_fraction, check_one_of, check_positive
from keras_attn.layers import cells
from keras_attn.layers.attention.base import weighted_sum
from keras_attn.layers.bridge import check_states

ATTEND = ("before", "after")

# What a step hands back as it was.
FIXED = ("memory", "keys", "memory_mask", "memory_gates")


@keras.saving.register_keras_serializable("keras_attn")
class AttentionDecoder(keras.layers.Layer):
    """Recurrent decoder that attends to a memory at every target position.

    With y_t the embedded input, s_t the state of the cells, c_t the context:

    - `attend="before"` (Bahdanau et al. 2015): the query is the first layer's state
      before the step; the context enters the first cell.
          c_t = attention(s_{t-1}, memory);  s_t = cell([y_t; c_t], s_{t-1})
          output_t = tanh(W [s_t; c_t; y_t] + b)
    - `attend="after"` (Luong et al. 2015): the query is the last layer's state after
      the step.
          s_t = cell(y_t, s_{t-1});  c_t = attention(s_t, memory)
          output_t = tanh(W [c_t; s_t] + b)
      With `input_feeding` the cell's input is [y_t; output_{t-1}].
    - `attention=None`: the plain decoder of an encoder-decoder. The memory is not
      looked at, output_t = s_t, and the weights are empty: `[B, T, 0]`.

    Whatever does not depend on the previous step is computed for the whole sequence
    outside of the loop: the input projection, the readout, and when attending "after"
    without input feeding the attention as well.

    Args:
        units: width of the cells.
        attention: an attention layer, or None.
        rnn: "gru" or "lstm".
        num_layers: number of stacked cells.
        attend: "before" or "after".
        input_feeding: whether the last output is fed to the cell; "after" only.
        readout_units: width of the output with attention; `units` by default.
        dropout: rate of the dropout between stacked cells, in training; one mask a
            position.
        reset_after: GRU only; whether the reset gate is applied after the recurrent
            product or before it.

    Call arguments:
        inputs: embedded target tokens `[B, T, E]`, shifted right (starting with <s>).
        memory: `[B, S, D]`.
        memory_mask: bool `[B, S]`, True = a real position; by default the mask of
            `memory`.
        initial_state: a list with one list a layer, `[h]` or for an LSTM `[h, c]`, each
            `[B, units]`, as `Bridge` makes it; zeros by default.
        training: bool.

    Output:
        `(outputs, weights)`: `[B, T, readout_units]`, and float32 `[B, T, S]`
        (`[B, T, 0]` without attention).

    Example:

    >>> decoder = AttentionDecoder(256, attention=BahdanauAttention(256))
    >>> state = Bridge(256)(final_state)
    >>> outputs, weights = decoder(embedded, memory, initial_state=state)
    >>> logits = keras.layers.Dense(8000)(outputs)

    References: Bahdanau, Cho & Bengio 2015, appendix A.2.2; Luong, Pham & Manning 2015,
    sections 3 and 3.3 (input feeding); Sutskever, Vinyals & Le 2014 (no attention).
    """

    def __init__(
        self,
        units: int,
        attention: keras.layers.Layer | None = None,
        rnn: str = "gru",
        num_layers: int = 1,
        attend: str = "before",
        input_feeding: bool = False,
        readout_units: int | None = None,
        dropout: float = 0.0,
        reset_after: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = check_positive("units", units)
        self.attention: Any = attention
        self.rnn = check_one_of("rnn", rnn, cells.CELLS)
        self.num_layers = check_positive("num_layers", num_layers)
        self.attend = check_one_of("attend", attend, ATTEND)
        self.input_feeding = input_feeding
        if input_feeding and (attention is None or attend == "before"):
            raise ValueError(
                "Invalid value for argument `input_feeding`. It feeds back the readout "
                'of attention and so needs an attention layer and attend="after". '
                f"Received: attention={attention}, attend={attend!r}"
            )
        if readout_units is not None and attention is None:
            raise ValueError(
                "Invalid value for argument `readout_units`. Without attention the "
                f"outputs are the cell's own, {units} wide. Received: "
                f"readout_units={readout_units}"
            )
        self.readout_units = check_positive("readout_units", readout_units or units)
        self.dropout = check_fraction("dropout", dropout)
        self.reset_after = reset_after
        self.supports_masking = True
        options = {"dtype": self.dtype_policy}
        self.cells = [
            cells.make_cell(rnn, units, reset_after, name=f"cell_{i}", **options)
            for i in range(num_layers)
        ]
        self.dropout_layer = keras.layers.Dropout(dropout, **options)
        self.readout: Any = None
        if attention is not None:
            self.readout = keras.layers.Dense(
                self.readout_units, activation="tanh", name="readout", **options
            )

    def build(self, inputs_shape, memory_shape=None):
        batch, _, embedding_dim = inputs_shape
        cell_input = embedding_dim + self._extra_input(memory_shape)
        for cell in self.cells:
            cell.build((batch, cell_input))
            cell_input = self.units
        if self.attention is not None:
            if not self.attention.built:
                self.attention.build((batch, self.units), memory_shape)
            width = self.units + memory_shape[-1]
            if self.attend == "before":
                width += embedding_dim
            self.readout.build((batch, width))
        self.embedding_dim = embedding_dim
        self.built = True

    def _extra_input(self, memory_shape):
        """Width of what enters the first cell beside the embedded token."""
        if self.attention is None:
            return 0
        if memory_shape is None:
            raise ValueError("A decoder with attention needs the argument `memory`.")
        if self.attend == "before":
            return memory_shape[-1]
        return self.readout_units if self.input_feeding else 0

    def begin(self, memory, memory_mask=None, initial_state=None):
        """The state before the first `step`.

        Args:
            memory: `[B, S, D]`; without attention its batch size alone matters.
            memory_mask: bool `[B, S]` or None.
            initial_state: as in a call.

        Returns:
            A nest of tensors whose first axis is the batch, for `step`.
        """
        self._check_built()
        batch_size = ops.shape(memory)[0]
        if initial_state is None:
            states = [cells.zero_states(cell, batch_size) for cell in self.cells]
        else:
            states = check_states(initial_state, self.cells)
        state = {"cells": states}
        if self.attention is None:
            return state
        memory = ops.cast(memory, self.compute_dtype)
        state["memory"] = memory
        state["keys"] = self.attention.project_memory(memory)
        state["attention"] = self.attention.initial_state(memory, memory_mask)
        if memory_mask is not None:
            state["memory_mask"] = ops.cast(memory_mask, "bool")
        if self.attend == "before":
            # The context is a weighted sum, so what it adds to the gates is one, too,
            # of the memory times the gates' kernel: one product a source.
            state["memory_gates"] = ops.matmul(memory, self._input_kernels()[1])
        if self.input_feeding:
            shape = (batch_size, self.readout_units)
            state["feed"] = ops.zeros(shape, dtype=self.compute_dtype)
        return state

    def step_weights(self):
        """What `step` needs of the weights, cast and split: a nest of tensors.

        A loop takes them once, outside, and hands them to every `step`.
        """
        token_kernel, extra_kernel, bias = self._input_kernels()
        weights = {
            "token": (token_kernel, bias),
            "cells": cells.stack_weights(self.cells),
        }
        if self.attention is not None:
            weights["attention"] = self.attention.step_weights()
            readout = self.readout.kernel, self.readout.bias
            weights["readout"] = [ops.cast(w, self.compute_dtype) for w in readout]
        if self.input_feeding:
            weights["feed"] = extra_kernel
        return weights

    def step(self, inputs, state, step_weights=None):
        """Decode one position.

        Args:
            inputs: embedded tokens `[B, E]`.
            state: what `begin` or the last `step` returned.
            step_weights: what `step_weights()` returned; taken when not given.

        Returns:
            `(outputs, weights, state)`: `[B, readout_units]`, float32 `[B, S]`
            (`[B, 0]` without attention), and the next state.
        """
        inputs = ops.cast(inputs, self.compute_dtype)
        loop = self.step_weights() if step_weights is None else step_weights
        hidden, weights, new = self._advance(
            loop, _affine(inputs, loop["token"]), state
        )
        if self.attention is None:
            return hidden, _no_weights(inputs), new
        if self.input_feeding:
            return hidden, weights, new
        if self.attend == "before":
            context = weighted_sum(weights, state["memory"])
        else:
            context, weights, new["attention"] = self._attend(hidden, state, loop)
        joined = self._joined(hidden, context, inputs)
        return ops.tanh(_affine(joined, loop["readout"])), weights, new

    def call(
        self, inputs, memory=None, memory_mask=None, initial_state=None, training=False
    ):
        source = inputs if memory is None else memory
        state = self.begin(source, memory_mask, initial_state)
        hidden, weights = self._run(inputs, state, training)
        if self.attention is None:
            return hidden, _no_weights(hidden)
        if self.input_feeding:
            return hidden, weights
        if self.attend == "before":
            context = weighted_sum(weights, state["memory"])
        else:
            context, weights, _ = self._attend(hidden, state)
        return self.readout(self._joined(hidden, context, inputs)), weights

    def _run(self, inputs, state, training):
        """All positions: what `_advance` returns, `[B, T, ...]`; weights or None."""
        loop = self.step_weights()
        # The same at every step, and so not carried.
        fixed = {k: state[k] for k in FIXED if k in state}
        carried = {k: state[k] for k in state if k not in FIXED}
        attends = self.attend == "before" or self.input_feeding
        attends = attends and self.attention is not None

        def advance(carry, x, constants):
            loop, fixed = constants
            hidden, weights, new = self._advance(loop, x[0], {**fixed, **carry}, x[1])
            new = {k: new[k] for k in carry}
            return new, (hidden, weights) if attends else (hidden,)

        # [T, B, gates * units]
        projected = _affine(ops.swapaxes(inputs, 0, 1), loop["token"])
        xs = (projected, self._dropout_masks(projected, training))
        dtypes = (self.compute_dtype, "float32") if attends else (self.compute_dtype,)
        _, outputs = backend.scan(advance, carried, xs, dtypes, (loop, fixed), training)
        hidden, *weights = [ops.swapaxes(y, 0, 1) for y in outputs]
        return hidden, weights[0] if attends else None

    def _advance(self, loop, projected, state, masks=()):
        """One step of what has to be in the loop.

        Args:
            loop: `step_weights()`.
            projected: `[B, gates * units]`, the token's share of the gates.
            state: the state before the step.
            masks: dropout masks for `cells.step_stack`.

        Returns:
            `(hidden, weights, state)`: the last cell's state, with input feeding the
            readout; the weights where the step attends, else None; the next state.
        """
        state, weights = dict(state), None
        if self.attention is not None and self.attend == "before":
            query = state["cells"][0][0]
            gates, weights, state["attention"] = self._attend(
                query, state, loop, state["memory_gates"]
            )
            projected = projected + gates
        if self.input_feeding:
            projected = projected + product(state["feed"], loop["feed"])
        state["cells"] = cells.step_stack(
            self.cells, loop["cells"], projected, state["cells"], masks
        )
        hidden = state["cells"][-1][0]
        if self.input_feeding:
            context, weights, state["attention"] = self._attend(hidden, state, loop)
            joined = self._joined(hidden, context, None)
            hidden = state["feed"] = ops.tanh(_affine(joined, loop["readout"]))
        return hidden, weights, state

    def _attend(self, query, state, loop=None, memory=None):
        return self.attention.step(
            query,
            state["keys"],
            state["memory"] if memory is None else memory,
            state.get("memory_mask"),
            state["attention"],
            None if loop is None else loop["attention"],
        )

    def _input_kernels(self):
        """The first cell's kernel for the token, that for the rest, and its bias."""
        kernel, bias = cells.input_weights(self.cells[0])
        # Not slices, whose gradients are each as large as the whole.
        token, extra = ops.split(kernel, [self.embedding_dim], axis=0)
        return token, extra, bias

    def _joined(self, hidden, context, inputs):
        """What the readout reads."""
        if self.attend == "before":
            return ops.concatenate([hidden, context, inputs], axis=-1)
        return ops.concatenate([context, hidden], axis=-1)

    def _dropout_masks(self, projected, training):
        """One `[T, B, units]` of scaled zeros and ones for each cell but the first.

        Drawn outside of the loop: a random draw inside one is no pure function.
        """
        if not training or not self.dropout:
            return ()
        shape = (*ops.shape(projected)[:2], self.units)
        ones = ops.ones(shape, dtype=self.compute_dtype)
        return tuple(self.dropout_layer(ones, training=True) for _ in self.cells[1:])

    def _check_built(self):
        if not self.built:
            raise ValueError(
                f"Decoder {self.name!r} has no weights yet. Call it once on embedded "
                "targets and a memory before `begin` and `step`."
            )

    def compute_mask(self, inputs, previous_mask):
        return [previous_mask]

    def compute_output_spec(
        self, inputs, memory=None, memory_mask=None, initial_state=None, training=False
    ):
        outputs = keras.KerasTensor(
            (*inputs.shape[:-1], self.readout_units), dtype=self.compute_dtype
        )
        source_length = 0 if self.attention is None else memory.shape[1]
        weights = (*inputs.shape[:-1], source_length)
        return outputs, keras.KerasTensor(weights, dtype="float32")

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "attention": keras.saving.serialize_keras_object(self.attention),
            "rnn": self.rnn,
            "num_layers": self.num_layers,
            "attend": self.attend,
            "input_feeding": self.input_feeding,
            "readout_units": None if self.attention is None else self.readout_units,
            "dropout": self.dropout,
            "reset_after": self.reset_after,
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        config["attention"] = keras.saving.deserialize_keras_object(config["attention"])
        return cls(**config)


def _affine(x, weights):
    """x `[..., I]` times a kernel `[I, O]` plus a bias: `[..., O]`."""
    kernel, bias = weights
    y = product(x, kernel) if len(x.shape) == 2 else ops.matmul(x, kernel)
    # ops.add and not +, for TensorFlow to fuse the two.
    return ops.add(y, bias)


def _no_weights(outputs):
    """What stands for weights without attention: no column at all, never a made-up one.

    A layer of a functional model cannot return None.
    """
    return ops.zeros((*ops.shape(outputs)[:-1], 0), dtype="float32")
