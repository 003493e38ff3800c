"""How much arithmetic a model's matrix products need, and how much a machine can do."""

import dataclasses
import time


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of the default `AttentionSeq2Seq`; `encoder` is per direction."""

    target_vocabulary: int
    embedding: int = 256
    encoder: int = 256
    decoder: int = 256


def forward_flops(sizes: Sizes, batch: int, source: int, target: int) -> int:
    """Floating-point operations of the matrix products of one forward pass.

    A product of `[m, k]` and `[k, n]` counts 2 m k n. Counted are the products of a
    BiGRU encoder, a dense bridge, additive attention, a GRU decoder that takes the
    context, a readout of state, context and token, and the output layer, over every
    position, padding included. Whatever is no product of matrices (gates, tanh,
    softmax, embedding look-ups, the loss, the optimizer) is left out.

    Args:
        sizes: sizes of the model.
        batch: sentences.
        source: source tokens of each.
        target: target tokens of each.
    """
    embedding, decoder = sizes.embedding, sizes.decoder
    memory = 2 * sizes.encoder
    # Multiplications a source position: gates of both directions, then the keys.
    gates = 2 * (embedding + sizes.encoder) * 3 * sizes.encoder
    a_source_position = gates + memory * decoder
    # A target position: query, gates from token, context and state, readout, logits.
    a_target_position = (
        decoder * decoder
        + (embedding + memory + decoder) * 3 * decoder
        + (decoder + memory + embedding) * decoder
        + decoder * sizes.target_vocabulary
    )
    # A pair of them: the score's product with v, and the weighted sum of the memory.
    a_pair = decoder + memory
    a_sentence = (
        source * a_source_position
        + target * a_target_position
        + source * target * a_pair
        + memory * decoder  # the bridge
    )
    return 2 * batch * a_sentence


def training_flops(sizes: Sizes, batch: int, source: int, target: int) -> int:
    """Those of a training step: backwards, every product has two of the same size."""
    return 3 * forward_flops(sizes, batch, source, target)


def measure_peak(dtype: str, size: int = 2048, seconds: float = 0.5) -> float:
    """Operations a second of TensorFlow's product of two square matrices.

    Args:
        dtype: "float32" or "bfloat16".
        size: rows of the matrices.
        seconds: how long to go on; the fastest product counts.
    """
    import tensorflow as tf

    a = tf.cast(tf.random.normal((size, size)), dtype)
    tf.matmul(a, a)
    fastest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        tf.matmul(a, a)
        fastest = min(fastest, time.perf_counter() - start)
    return 2 * size**3 / fastest
