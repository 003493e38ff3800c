"""This project's side on any backend of Keras: layers, model and loss, no `tf.data`."""

import time
from collections.abc import Mapping, Sequence

import keras
import numpy as np

from keras_attn.models import AttentionSeq2Seq
from keras_attn.training.losses import MaskedCrossEntropy

Batch = Mapping[str, np.ndarray]


class BackendSide:
    """A model on the backend that KERAS_BACKEND names.

    Args:
        vocabulary_sizes: source and target tokens.
        dtype_policy: precision.
        **sizes: `embedding_dim`, `encoder_units`, `decoder_units`.
    """

    def __init__(self, vocabulary_sizes: Sequence[int], dtype_policy: str, **sizes):
        keras.utils.set_random_seed(0)
        self.model = AttentionSeq2Seq(*vocabulary_sizes, dtype=dtype_policy, **sizes)
        self.model.compile(
            keras.optimizers.Adam(1e-3, global_clipnorm=1.0),
            MaskedCrossEntropy(label_smoothing=0.1),
        )
        self.batches: Sequence[Batch] = []

    def set_batches(self, batches: Sequence[Batch]) -> None:
        """Train on batches of one shape, round and round."""
        self.batches = batches

    def train(self, steps: int) -> tuple[float, float]:
        """Seconds and mean loss of a call of `fit`."""
        chosen = [self.batches[i % len(self.batches)] for i in range(steps)]
        arrays = {name: np.concatenate([b[name] for b in chosen]) for name in chosen[0]}
        labels = arrays.pop("labels")
        batch_size = len(labels) // steps
        start = time.perf_counter()
        history = self.model.fit(
            arrays, labels, batch_size=batch_size, shuffle=False, verbose=0
        )
        return time.perf_counter() - start, history.history["loss"][0]

    def search(self, source_ids: np.ndarray, repeats: int = 1, **options) -> float:
        """Seconds of a call of `generate`."""
        start = time.perf_counter()
        for _ in range(repeats):
            result = self.model.generate(source_ids, **options)
            keras.ops.convert_to_numpy(result.ids)
        return (time.perf_counter() - start) / repeats


class Devices:
    """What a framework sees in a process of its own."""

    def gpu(self, framework: str) -> bool:
        """Whether "tensorflow", "jax" or "torch" sees a GPU."""
        if framework == "tensorflow":
            import tensorflow as tf

            return bool(tf.config.list_physical_devices("GPU"))
        if framework == "jax":
            import jax

            return jax.default_backend() == "gpu"
        import torch

        return torch.cuda.is_available()
