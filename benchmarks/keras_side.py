"""This project's side of the comparisons, made by what users call."""

import time
import types
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
from absl import flags

from benchmarks import flops
from benchmarks.memory import peak_growth
from keras_attn.data import training_dataset
from keras_attn.training import MaskedCrossEntropy
from trainers import train_flags, train_translation

FLAGS = flags.FLAGS

Batch = Mapping[str, np.ndarray]

DROPOUTS = ("embedding_dropout", "memory_dropout", "readout_dropout")


class KerasSide:
    """An `AttentionSeq2Seq`; its methods are those of `PyTorchSide`.

    Args:
        model: the model.
    """

    def __init__(self, model: keras.Model):
        self.model = model

    def options(self) -> dict:
        """The arguments of a peer of the same sizes."""
        config = self.model.get_config()
        sides = ("source", "target")
        sizes = ("embedding_dim", "encoder_units", "decoder_units")
        dropouts = {name: config[name] for name in DROPOUTS}
        return {
            "vocabulary_sizes": [config[f"{side}_vocabulary_size"] for side in sides],
            "dtype_policy": self.model.decoder.dtype_policy.name,
            **{name: config[name] for name in sizes},
            **{k: config["dropout"] if v is None else v for k, v in dropouts.items()},
        }

    def num_parameters(self) -> int:
        return self.model.count_params()

    def weights(self) -> dict[str, np.ndarray]:
        """The weights by path."""
        return {v.path: np.asarray(v, dtype="float32") for v in self.model.weights}

    def load_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        for variable in self.model.weights:
            variable.assign(weights[variable.path])

    def check(self, batch: Batch) -> tuple[np.ndarray, float, float]:
        """Logits, loss and norm of the gradient in float32, without dropout."""
        model = self._float32_model()
        loss_of = MaskedCrossEntropy(label_smoothing=0.1)

        @tf.function
        def compute(inputs, labels):
            with tf.GradientTape() as tape:
                logits = model(inputs, training=True)
                loss = loss_of(labels, logits)
            gradient = tape.gradient(loss, model.trainable_weights)
            dense = [tf.convert_to_tensor(part) for part in gradient]
            return logits, loss, tf.linalg.global_norm(dense)

        logits, loss, norm = compute(_inputs(batch), batch["labels"])
        return logits.numpy(), float(loss), float(norm)

    def check_search(
        self, source_ids: np.ndarray, **options
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids `[B, K, T]` and scores `[B, K]` in float32."""
        result = self._float32_model().generate(source_ids, **options)
        return np.asarray(result.ids), np.asarray(result.scores)

    def _float32_model(self):
        config = {
            **self.model.get_config(),
            **dict.fromkeys(("dropout", *DROPOUTS), 0.0),
            "dtype": "float32",
        }
        model = type(self.model).from_config(config)
        model.set_weights(self.model.get_weights())
        return model

    def search(self, source_ids: np.ndarray, repeats: int = 1, **options) -> float:
        """Seconds of a call of `generate`."""
        start = time.perf_counter()
        for _ in range(repeats):
            np.asarray(self.model.generate(source_ids, **options).ids)
        return (time.perf_counter() - start) / repeats

    def peak(self) -> float:
        """Operations a second of a large matrix product in the compute dtype."""
        return flops.measure_peak(self.model.decoder.compute_dtype)


class TrainerSide(KerasSide):
    """A model and its training as `trainers.train_translation` makes them of flags.

    Args:
        arguments: flags of the trainer.
        vocabulary_sizes: source and target tokens.
    """

    def __init__(self, arguments: Sequence[str], vocabulary_sizes: Sequence[int]):
        parse(arguments)
        keras.utils.set_random_seed(FLAGS.seed)
        tokenizers = [
            types.SimpleNamespace(vocabulary_size=size) for size in vocabulary_sizes
        ]
        super().__init__(train_translation.make_model(*tokenizers))
        self.data: tf.data.Dataset | None = None
        # Of the whole training, which a schedule of the learning rate depends on.
        self.total_steps = 10_000

    def options(self) -> dict:
        shared = ("learning_rate", "label_smoothing", "clip_norm")
        return {**super().options(), **{name: FLAGS[name].value for name in shared}}

    def set_batches(self, batches: Sequence[Batch]) -> None:
        """Train on batches of one shape, round and round."""
        stacked = {name: np.stack([b[name] for b in batches]) for name in batches[0]}
        data = (_inputs(stacked), stacked["labels"])
        self.data = tf.data.Dataset.from_tensor_slices(data).repeat()

    def train(self, steps: int) -> tuple[float, float]:
        """Seconds and mean loss of a call of `fit`."""
        if not self.model.compiled:
            train_translation.compile_model(self.model, self.total_steps)
        data = self.data.take(steps)
        start = time.perf_counter()
        history = self.model.fit(data, shuffle=False, verbose=0)
        return time.perf_counter() - start, history.history["loss"][0]

    def training_memory(self, steps: int) -> int:
        """Bytes that training takes beyond the model; once, in a fresh process."""
        return peak_growth(lambda: self.train(steps))


class RecipeSide(TrainerSide):
    """The same on the data that the flags name.

    Args:
        arguments: flags of the trainer.
    """

    def __init__(self, arguments: Sequence[str]):
        parse(arguments)
        corpus = train_translation.read_corpus("train")
        tokenizers = [
            train_translation.make_tokenizer(side, corpus)
            for side in ("source", "target")
        ]
        super().__init__(arguments, [t.vocabulary_size for t in tokenizers])
        training = training_dataset(
            corpus,
            *tokenizers,
            batch_size=FLAGS.batch_size,
            max_source_length=FLAGS.max_source_length,
            max_target_length=FLAGS.max_target_length,
            seed=FLAGS.seed,
        )
        self.data = training.dataset
        self.total_steps = FLAGS.epochs * training.summary.batches

    def batches(self, count: int) -> list[Batch]:
        """The first batches of the epoch, which every call of `train` starts with."""
        return [
            {**{k: v.numpy() for k, v in inputs.items()}, "labels": labels.numpy()}
            for inputs, labels in self.data.take(count)
        ]


def parse(arguments: Sequence[str]) -> None:
    """Set the trainer's flags."""
    if "train_source" not in FLAGS:
        train_flags.define_flags()
    FLAGS(["benchmark", "--model_dir=unused", *arguments])


def _inputs(batch: Batch) -> dict[str, np.ndarray]:
    return {name: batch[name] for name in ("source_ids", "target_ids")}
