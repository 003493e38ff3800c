"""Speed of decoding, against plain PyTorch of the same model and the same weights.

    python -m benchmarks.decoding --dtype_policy=float32

Exactly 20 steps from sources of 16 tokens: both sides have an untrained model whose
output bias makes </s> impossible. Vocabulary 8000, embedding 256, hidden 256 a
direction. Before anything is timed the hypotheses of both are found equal.
"""

from absl import flags

from benchmarks import agreement, pairs
from benchmarks.training_step import ARGUMENTS, LENGTH, OURS, SIZES, VOCABULARY

FLAGS = flags.FLAGS

EOS_ID = 3
IMPOSSIBLE = -1e9
STEPS = 20
OPTIONS = {"max_length": STEPS, "length_penalty": 0.6}
# Beam width, batch size, and how many searches a round holds.
CASES = ((5, 1, 20), (1, 1, 40), (5, 32, 4))


def main() -> None:
    arguments = [*ARGUMENTS, f"--dtype_policy={FLAGS.dtype_policy}"]
    (batch,) = agreement.random_batches(1, 32, LENGTH, VOCABULARY)
    source_ids = batch["source_ids"]
    with agreement.both_sides(OURS, arguments, SIZES, threads=FLAGS.threads) as sides:
        ours, peer = sides
        weights = ours.call("weights")
        # New weights make all tokens about as probable, and rounding would choose.
        weights["output_layer/kernel"] *= 100
        ours.call("load_weights", weights)
        agreement.check_same_model(ours, peer, agreement.with_padding(batch))
        weights["output_layer/bias"][EOS_ID] = IMPOSSIBLE
        for side in sides:
            side.call("load_weights", weights)
        agreement.check_same_search(ours, peer, source_ids, beam_width=5, **OPTIONS)
        pairs.report([measure(ours, peer, source_ids, *case) for case in CASES])


def measure(ours, peer, source_ids, beam_width, batch_size, repeats) -> pairs.Row:
    """The row of one case."""
    arguments = {
        "source_ids": source_ids[:batch_size],
        "repeats": repeats,
        "beam_width": beam_width,
        **OPTIONS,
    }

    def describe(seconds):
        if batch_size == 1:
            return f"{1000 * seconds:.1f} ms"
        return f"{batch_size / seconds:,.0f} sentences/s"

    peer_dtype = peer.call("choose_precision", "search", **arguments)
    comparison = pairs.compare(
        lambda: ours.call("search", **arguments),
        lambda: peer.call("search", **arguments),
        FLAGS.pairs,
    )
    work = f"{STEPS} steps of decoding, beam {beam_width}, batch {batch_size}"
    return pairs.ratio_row(work, FLAGS.dtype_policy, comparison, describe, peer_dtype)


if __name__ == "__main__":
    pairs.define_flags(pairs=9)
    pairs.run(main)
