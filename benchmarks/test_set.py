"""Speed of translating Multi30k's test_2016 with beam 5, against plain PyTorch.

    python -m benchmarks.test_set --dtype_policy=float32

Without --model_dir a model is trained by the recipe for two epochs, once, and kept
under runs/. This side is `Translator.translate`, from text to text, attention included;
the peer has the same weights and starts and ends with token ids. Both sort by length
and have the same batch size, maximal length and length penalty; BLEU tells that they
translate alike.
"""

import subprocess
import sys

from absl import flags

from benchmarks import agreement, multi30k, pairs

FLAGS = flags.FLAGS

OURS = "benchmarks.translator_side:TranslatorSide"
TRAINED = "runs/benchmark-multi30k-de-en"
OPTIONS = {
    "batch_size": 32,
    "beam_width": 5,
    "max_length": 100,
    "length_penalty": 0.6,
}


def main() -> None:
    if reason := multi30k.missing():
        print(f"benchmarks.test_set {reason}")
        return
    model_dir = FLAGS.model_dir or train()
    texts, references = multi30k.test_set()
    with agreement.both_sides(
        OURS, model_dir, FLAGS.dtype_policy, threads=FLAGS.threads
    ) as (ours, peer):
        source_ids = ours.call("encode", texts)
        (batch,) = agreement.random_batches(
            1, 32, 16, min(ours.call("options")["vocabulary_sizes"])
        )
        agreement.check_same_model(ours, peer, agreement.with_padding(batch))
        # A part is enough to choose by, and spares time.
        part = source_ids[:: len(source_ids) // 100]
        peer_dtype = peer.call("choose_precision", "translate", part, **OPTIONS)
        found: dict = {}

        def translate(side, name, sources):
            seconds, found[name] = side.call("translate", sources, **OPTIONS)
            return seconds

        comparison = pairs.compare(
            lambda: translate(ours, "ours", texts),
            lambda: translate(peer, "peer", source_ids),
            FLAGS.pairs,
        )
        found["peer"] = ours.call("detokenize", found["peer"])
        bleu = {k: ours.call("bleu", v, references) for k, v in found.items()}
    print(f"BLEU: {bleu['ours']:.2f} and {bleu['peer']:.2f}")
    row = pairs.ratio_row(
        f"translating {len(texts)} sentences, beam {OPTIONS['beam_width']}",
        FLAGS.dtype_policy,
        comparison,
        lambda seconds: f"{seconds:.1f} s",
        peer_dtype,
    )
    pairs.report([row])


def train() -> str:
    """Train a model for a short time, unless that has been done; returns its place."""
    arguments = (
        f"--flagfile={multi30k.RECIPE}",
        f"--model_dir={TRAINED}",
        "--epochs=2",
        "--warmup_steps=200",
        "--dtype_policy=float32",
        "--notensorboard",
    )
    command = [sys.executable, "-m", "trainers.train_translation", *arguments]
    subprocess.run(command, check=True)
    return TRAINED


if __name__ == "__main__":
    pairs.define_flags(pairs=3)
    flags.DEFINE_string("model_dir", None, "Directory of a training run to translate.")
    pairs.run(main)
