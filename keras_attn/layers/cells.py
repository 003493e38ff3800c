"""The equations of Keras's GRU and LSTM cells, split so that loops stay short.

A cell here is `keras.layers.GRUCell` or `keras.layers.LSTMCell`: Keras owns the
weights, their order and their initializers. What a step needs of the input alone,
`x W + b`, is computed by `project_inputs` for a whole sequence as one matrix product;
`step` does the rest.
"""

import keras
from keras import ops

from keras_attn.backend import product

CELLS = ("gru", "lstm")


def make_cell(rnn: str, units: int, reset_after: bool, **kwargs):
    """The Keras cell named "gru" or "lstm"."""
    if rnn == "gru":
        return keras.layers.GRUCell(units, reset_after=reset_after, **kwargs)
    return keras.layers.LSTMCell(units, **kwargs)


def is_gru(cell) -> bool:
    return isinstance(cell, keras.layers.GRUCell)


def num_states(cell) -> int:
    """1 for a GRU (h), 2 for an LSTM (h, c)."""
    return 1 if is_gru(cell) else 2


def zero_states(cell, batch_size):
    """The states before the first step: a tuple of `[B, units]` zeros."""
    shape = (batch_size, cell.units)
    return (ops.zeros(shape, dtype=cell.compute_dtype),) * num_states(cell)


def input_weights(cell):
    """Kernel `[input_dim, gates * units]` and bias `[gates * units]` of the input."""
    bias = ops.cast(cell.bias, cell.compute_dtype)
    if is_gru(cell) and cell.reset_after:
        bias = bias[0]
    return ops.cast(cell.kernel, cell.compute_dtype), bias


def project_inputs(cell, inputs):
    """`x W + b` of inputs `[..., input_dim]`: `[..., gates * units]`."""
    kernel, bias = input_weights(cell)
    # ops.add and not +, for TensorFlow to fuse the two.
    return ops.add(ops.matmul(inputs, kernel), bias)


def loop_weights(cell):
    """The tensors that `step` needs, cast and split once, outside of the loop."""
    kernel = ops.cast(cell.recurrent_kernel, cell.compute_dtype)
    if not is_gru(cell):
        return (kernel,)
    if cell.reset_after:
        return kernel, ops.cast(cell.bias, cell.compute_dtype)[1]
    return tuple(ops.split(kernel, [2 * cell.units], axis=-1))


def step(cell, weights, projected, states):
    """One step of the recurrence.

    Args:
        cell: the Keras cell.
        weights: `loop_weights(cell)`.
        projected: `[B, gates * units]`, the projected input of this step.
        states: tuple of `[B, units]`, h and for an LSTM c.

    Returns:
        The new states; the first is the cell's output.
    """
    if is_gru(cell):
        return _gru_step(cell, weights, projected, states)
    return _lstm_step(cell, weights, projected, states)


def _gru_step(cell, weights, projected, states):
    (h,) = states
    # Gates z and r, side by side, and the candidate, as Keras orders them.
    x_gates, x_h = ops.split(projected, [2 * cell.units], axis=-1)
    if cell.reset_after:
        kernel, bias = weights
        recurrent = ops.add(product(h, kernel), bias)
        h_gates, h_h = ops.split(recurrent, [2 * cell.units], axis=-1)
        z, r = ops.split(cell.recurrent_activation(x_gates + h_gates), 2, axis=-1)
        candidate = cell.activation(x_h + r * h_h)
    else:
        gate_kernel, candidate_kernel = weights
        gates = cell.recurrent_activation(x_gates + product(h, gate_kernel))
        z, r = ops.split(gates, 2, axis=-1)
        candidate = cell.activation(x_h + product(r * h, candidate_kernel))
    # z h + (1 - z) candidate
    return (candidate + z * (h - candidate),)


def _lstm_step(cell, weights, projected, states):
    h, c = states
    gates = projected + product(h, weights[0])
    # Input, forget, candidate and output, as Keras orders them.
    i, f, candidate, o = ops.split(gates, 4, axis=-1)
    i, f, o = (cell.recurrent_activation(gate) for gate in (i, f, o))
    c = f * c + i * cell.activation(candidate)
    return o * cell.activation(c), c


def stack_weights(stack):
    """What `step_stack` needs, for every cell, cast and split outside of the loop."""
    return [(*input_weights(cell), loop_weights(cell)) for cell in stack]


def step_stack(stack, weights, projected, states, masks=()):
    """One step of stacked cells.

    Args:
        stack: the cells, from the input on.
        weights: `stack_weights(stack)`.
        projected: `[B, gates * units]`, the projected input of the first cell.
        states: the states of each cell.
        masks: dropout masks `[B, units]` on the input of each cell but the first, or
            nothing.

    Returns:
        The new states of each cell.
    """
    new: list = []
    for i, (cell, (kernel, bias, loop)) in enumerate(zip(stack, weights, strict=True)):
        if i > 0:
            below = new[-1][0]
            below = below * masks[i - 1] if masks else below
            projected = ops.add(product(below, kernel), bias)
        new.append(step(cell, loop, projected, states[i]))
    return new


def keep_where(mask, new, old):
    """`new` states where mask `[B]` is True, `old` ones elsewhere."""
    if mask is None:
        return new
    mask = mask[:, None]
    return tuple(ops.where(mask, n, o) for n, o in zip(new, old, strict=True))
