"""Speed of training on Multi30k by its recipe, against plain PyTorch of the same model.

    python -m benchmarks.epoch --dtype_policy=float32

This side is `fit` on the recipe's own dataset, pipeline included, with the recipe's
dropout. The peer has the same dropout and gets the same batches as arrays, with nothing
to read or to tokenize. A round is the first batches of an epoch, which are a random
part of it.
"""

from absl import flags

from benchmarks import agreement, multi30k, pairs

FLAGS = flags.FLAGS

OURS = "benchmarks.keras_side:RecipeSide"


def main() -> None:
    if reason := multi30k.missing():
        print(f"benchmarks.epoch {reason}")
        return
    arguments = [
        f"--flagfile={multi30k.RECIPE}",
        f"--dtype_policy={FLAGS.dtype_policy}",
    ]
    with agreement.both_sides(OURS, arguments, threads=FLAGS.threads) as (ours, peer):
        batches = ours.call("batches", FLAGS.steps)
        peer.call("set_batches", batches)
        peer_dtype = peer.call("choose_precision", "train", 10)
        agreement.check_same_model(ours, peer, batches[0])
        comparison = pairs.compare(
            lambda: ours.call("train", FLAGS.steps)[0],
            lambda: peer.call("train", FLAGS.steps)[0],
            FLAGS.pairs,
        )
    tokens = sum(int((batch["labels"] != 0).sum()) for batch in batches)
    row = pairs.ratio_row(
        "training on Multi30k",
        FLAGS.dtype_policy,
        comparison,
        lambda seconds: f"{tokens / seconds:,.0f} target tokens/s",
        peer_dtype,
    )
    pairs.report([row])


if __name__ == "__main__":
    pairs.define_flags(pairs=3)
    flags.DEFINE_integer("steps", 100, "Training steps of a round.", lower_bound=1)
    pairs.run(main)
