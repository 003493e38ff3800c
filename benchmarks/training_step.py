"""Speed and memory of a training step, against plain PyTorch of the same model.

    python -m benchmarks.training_step --dtype_policy=float32

Vocabulary 8000, embedding 256, hidden 256 a direction, batch 64, 16 source and 16
target tokens, Adam with the gradient's norm clipped at 1, label smoothing 0.1, no
dropout. This side is `fit` on a model compiled by the trainer. Both start from the same
weights, and before anything is timed their logits and losses are found equal.
"""

import functools
import statistics

from absl import flags

from benchmarks import agreement, flops, pairs

FLAGS = flags.FLAGS

OURS = "benchmarks.keras_side:TrainerSide"
VOCABULARY = 8000
SIZES = (VOCABULARY, VOCABULARY)
LENGTH = 16
MEMORY_STEPS = 10
ARGUMENTS = (
    "--embedding_dim=256",
    "--encoder_units=256",
    "--decoder_units=256",
    "--dropout=0",
    "--schedule=constant",
    "--learning_rate=0.001",
    "--label_smoothing=0.1",
    "--clip_norm=1.0",
)


def main() -> None:
    arguments = [*ARGUMENTS, f"--dtype_policy={FLAGS.dtype_policy}"]
    sides = functools.partial(
        agreement.both_sides, OURS, arguments, SIZES, threads=FLAGS.threads
    )
    batches = agreement.random_batches(8, FLAGS.batch_size, LENGTH, VOCABULARY)
    with sides() as (ours, peer):
        for side in (ours, peer):
            side.call("set_batches", batches)
        peer_dtype = peer.call("choose_precision", "train", 2)
        agreement.check_same_model(ours, peer, agreement.with_padding(batches[0]))
        rows = measure_speed(ours, peer, peer_dtype)
    # In fresh processes: memory that was used before would be used again unseen.
    with sides() as (ours, peer):
        for side in (ours, peer):
            side.call("set_batches", batches)
        peer.call("set_precision", peer_dtype)
        rows.append(measure_memory(ours, peer, peer_dtype))
    pairs.report(rows)


def measure_speed(ours, peer, peer_dtype: str) -> list[pairs.Row]:
    """The rows of tokens a second and of the share of the machine's peak."""
    peaks, losses = [], ([], [])

    def train(side, its_losses):
        seconds, loss = side.call("train", FLAGS.steps)
        its_losses.append(loss)
        return seconds

    def train_ours():
        peaks.append(ours.call("peak"))
        return train(ours, losses[0])

    comparison = pairs.compare(train_ours, lambda: train(peer, losses[1]), FLAGS.pairs)
    agreement.check_same_training(*losses)
    sentences = FLAGS.steps * FLAGS.batch_size
    needed = flops.training_flops(flops.Sizes(VOCABULARY), sentences, LENGTH, LENGTH)
    rates = [needed / seconds for seconds in comparison.ours]
    shares = [rate / peak for rate, peak in zip(rates, peaks[1:], strict=True)]
    work = f"training step, batch {FLAGS.batch_size}"
    return [
        pairs.ratio_row(
            work,
            FLAGS.dtype_policy,
            comparison,
            lambda seconds: f"{sentences * LENGTH / seconds:,.0f} target tokens/s",
            peer_dtype,
        ),
        pairs.Row(
            f"{work}, share of the matrix-product peak",
            FLAGS.dtype_policy,
            f"{statistics.median(rates) / 1e9:.0f} GFLOP/s",
            f"peak {statistics.median(peaks[1:]) / 1e9:.0f} GFLOP/s",
            f"{statistics.median(shares):.0%}",
            f"{min(shares):.0%}",
            f"{max(shares):.0%}",
        ),
    ]


def measure_memory(ours, peer, peer_dtype: str) -> pairs.Row:
    """The row of peak memory."""
    ours_bytes, peer_bytes = (
        side.call("training_memory", MEMORY_STEPS) for side in (ours, peer)
    )
    return pairs.Row(
        f"training step, batch {FLAGS.batch_size}, peak memory beyond the model",
        FLAGS.dtype_policy,
        f"{ours_bytes / 2**20:.0f} MiB",
        f"{peer_bytes / 2**20:.0f} MiB, {peer_dtype}",
        f"{ours_bytes / peer_bytes:.2f}x",
    )


if __name__ == "__main__":
    pairs.define_flags(pairs=7)
    flags.DEFINE_integer("steps", 12, "Training steps of a round.", lower_bound=1)
    flags.DEFINE_integer("batch_size", 64, "Sentences of a step.", lower_bound=1)
    pairs.run(main)
