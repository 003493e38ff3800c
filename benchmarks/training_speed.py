"""Speed of training by a recipe: seconds a step, target tokens a second, an epoch.

    python -m benchmarks.training_speed \\
        --flagfile=trainers/recipes/multi30k-de-en-bahdanau.flags

Runs `fit` on the recipe's own data and batches, first some steps that do not count. The
time of an epoch is the measured time a target token times the tokens of an epoch.
"""

import time

import keras
from absl import flags

from keras_attn.data import training_dataset
from keras_attn.text import Tokenizer
from trainers import flags as common
from trainers import train_translation
from trainers.train_flags import TOKENIZERS, define_flags

FLAGS = flags.FLAGS


class Clock(keras.callbacks.Callback):
    """The time of every step."""

    def __init__(self):
        super().__init__()
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.perf_counter())


def make_tokenizer(side: str, corpus) -> Tokenizer:
    kind = TOKENIZERS[getattr(FLAGS, f"{side}_tokenizer")]
    lines = corpus.sources() if side == "source" else corpus.targets()
    return kind.train(lines, getattr(FLAGS, f"{side}_vocabulary_size") or None)


def main() -> None:
    keras.utils.set_random_seed(FLAGS.seed)
    corpus = train_translation.read_corpus("train")
    source, target = (make_tokenizer(side, corpus) for side in ("source", "target"))
    model = train_translation.make_model(source, target)
    train = training_dataset(
        corpus,
        source,
        target,
        batch_size=FLAGS.batch_size,
        max_source_length=FLAGS.max_source_length,
        max_target_length=FLAGS.max_target_length,
        seed=FLAGS.seed,
    )
    summary = train.summary
    train_translation.compile_model(model, FLAGS.epochs * summary.batches)
    steps = FLAGS.warmup + FLAGS.measured
    batches = train.dataset.repeat().take(steps)
    tokens = [int((labels.numpy() != 0).sum()) for _, labels in batches]
    clock = Clock()
    model.fit(batches, epochs=1, shuffle=False, callbacks=[clock], verbose=0)
    seconds = clock.times[-1] - clock.times[FLAGS.warmup - 1]
    speed = sum(tokens[FLAGS.warmup :]) / seconds
    print(f"{model.count_params():,} parameters")
    print(f"{1000 * seconds / FLAGS.measured:.0f} ms a step of {FLAGS.batch_size}")
    print(f"{speed:,.0f} target tokens a second")
    print(f"{summary.target_tokens / speed:.0f} s an epoch")


if __name__ == "__main__":
    define_flags()
    flags.DEFINE_integer("warmup", 40, "Steps that do not count.", lower_bound=1)
    flags.DEFINE_integer("measured", 200, "Steps that count.", lower_bound=1)
    FLAGS.set_default("model_dir", "unused")
    common.run(main)
