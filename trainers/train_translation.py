"""Train a sequence-to-sequence model from parallel text.

    python -m trainers.train_translation \\
        --train_source=train.de --train_target=train.en \\
        --valid_source=valid.de --valid_target=valid.en --model_dir=runs/de-en

Writes to MODEL_DIR: the best model by dev BLEU and its tokenizers, as
`keras_attn.Translator.load` reads them; `logs/` for TensorBoard; and `checkpoints/`.
The same command resumes a run that was interrupted, and does nothing for one that is
done.
"""

import json
import pathlib
import sys
import time

import keras
from absl import flags

from keras_attn import Translator, files
from keras_attn.data import (
    EpochSeed,
    ParallelCorpus,
    evaluation_dataset,
    training_dataset,
)
from keras_attn.models import AttentionSeq2Seq
from keras_attn.text import Tokenizer, load_tokenizer
from keras_attn.training import (
    MaskedCrossEntropy,
    Perplexity,
    TokenAccuracy,
    TrainingState,
    ValidationBLEU,
    make_schedule,
)
from trainers import flags as common
from trainers.train_flags import TOKENIZERS, define_flags, run_options

FLAGS = flags.FLAGS

# The flags of a run, in its directory.
OPTIONS = pathlib.Path("checkpoints", "options.json")


def read_corpus(split: str) -> ParallelCorpus:
    """The corpus that the flags of "train" or "valid" name."""
    return common.read_corpus(f"{split}_source", f"{split}_target", f"{split}_tsv")


def find_run(model_dir: pathlib.Path) -> bool:
    """Whether the directory holds a run to resume, which must be one of these flags.

    Raises:
        ValueError: the directory holds something else.
    """
    path, options = model_dir / OPTIONS, run_options()
    begun = (model_dir / "checkpoints" / "latest.json").exists()
    saved = any((model_dir / name).exists() for name in ("model.keras", "config.json"))
    if not begun and not saved:
        return False
    if not path.exists():
        raise ValueError(
            f"{model_dir} holds a model that is no run of this script. Choose another "
            "--model_dir; nothing was changed."
        )
    try:
        earlier = dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"Corrupt file {path}: {error}") from error
    differing = sorted(
        name for name in {*options, *earlier} if options.get(name) != earlier.get(name)
    )
    if differing:
        lines = (
            f"\n  --{n}: {earlier.get(n)} there, {options.get(n)} here"
            for n in differing
        )
        raise ValueError(
            f"{model_dir} holds a run with other flags. Choose another --model_dir, or "
            f"the same flags to resume it.{''.join(lines)}"
        )
    return begun


def make_tokenizer(side: str, corpus: ParallelCorpus) -> Tokenizer:
    """A newly trained tokenizer."""
    lines = corpus.sources() if side == "source" else corpus.targets()
    kind = getattr(FLAGS, f"{side}_tokenizer")
    size = getattr(FLAGS, f"{side}_vocabulary_size") or None
    if size is None and kind == "sentencepiece":
        raise ValueError(
            f"--{side}_vocabulary_size=0 takes every word or character; SentencePiece "
            "needs a number."
        )
    try:
        return TOKENIZERS[kind].train(lines, size)
    except ValueError as error:
        raise ValueError(
            f"No {side} tokenizer can be trained with --{side}_tokenizer={kind} "
            f"--{side}_vocabulary_size={size or 0}: {error}"
        ) from error


def get_tokenizers(
    model_dir: pathlib.Path, corpus: ParallelCorpus
) -> tuple[Tokenizer, Tokenizer]:
    """Source and target tokenizer: those of a run to resume, or newly trained ones."""
    if find_run(model_dir):
        # The first epoch saved them.
        return (
            load_tokenizer(model_dir / "tokenizers" / "source"),
            load_tokenizer(model_dir / "tokenizers" / "target"),
        )
    return make_tokenizer("source", corpus), make_tokenizer("target", corpus)


def make_model(source_tokenizer, target_tokenizer) -> AttentionSeq2Seq:
    names = (
        "embedding_dim encoder_units decoder_units rnn encoder_layers decoder_layers "
        "bidirectional attend input_feeding readout_units bridge reset_after dropout "
        "embedding_dropout memory_dropout readout_dropout"
    ).split()
    options = {name: getattr(FLAGS, name) for name in names}
    options["attention"] = None if FLAGS.attention == "none" else FLAGS.attention
    return AttentionSeq2Seq(
        source_tokenizer.vocabulary_size,
        target_tokenizer.vocabulary_size,
        dtype=FLAGS.dtype_policy,
        **options,
    )


def compile_model(model, total_steps: int) -> None:
    rate = make_schedule(
        FLAGS.schedule, FLAGS.learning_rate, FLAGS.warmup_steps, total_steps
    )
    model.compile(
        keras.optimizers.Adam(rate, global_clipnorm=FLAGS.clip_norm or None),
        MaskedCrossEntropy(FLAGS.label_smoothing),
        metrics=[TokenAccuracy(), Perplexity()],
        # Every bucket of lengths would be compiled anew.
        jit_compile=False,
    )
    # Variables made while a step is traced have it traced once more.
    model.optimizer.build(model.trainable_variables)


def make_bleu(translator, valid: ParallelCorpus, model_dir) -> ValidationBLEU:
    """Dev BLEU after every epoch; the best model is saved as the translator."""

    def translate(texts):
        translations = translator.translate(
            texts,
            beam_width=FLAGS.valid_beam_width,
            max_length=FLAGS.max_target_length,
            batch_size=FLAGS.valid_batch_size,
        )
        return [translation.text for translation in translations]

    return ValidationBLEU(
        translate,
        list(valid.sources()),
        list(valid.targets()),
        save_best=lambda: translator.save(model_dir),
        patience=FLAGS.patience,
        tokenize=FLAGS.bleu_tokenize,
    )


def fit(model, train, validation_data, model_dir, bleu, state, epochs_done) -> None:
    """Train from `epochs_done` on; from here on MODEL_DIR is written to."""
    # Whatever is wrong with the flags or the files has been found by now.
    (model_dir / OPTIONS).parent.mkdir(parents=True, exist_ok=True)
    files.write_text_atomically(
        model_dir / OPTIONS, json.dumps(run_options(), indent=1) + "\n"
    )
    callbacks = [EpochSeed(train), bleu]
    if FLAGS.tensorboard:
        callbacks.append(
            keras.callbacks.TensorBoard(
                model_dir / "logs", write_graph=False, update_freq=100
            )
        )
    model.fit(
        train.dataset,
        shuffle=False,  # it is, and Keras would warn
        epochs=FLAGS.epochs,
        initial_epoch=epochs_done,
        validation_data=validation_data,
        callbacks=[*callbacks, state],
        # A bar on a terminal, a line an epoch in a file.
        verbose=1 if sys.stdout.isatty() else 2,
    )


def main() -> None:
    keras.utils.set_random_seed(FLAGS.seed)
    model_dir = pathlib.Path(FLAGS.model_dir)
    common.check_directory("model_dir", model_dir)
    common.check_bleu_tokenize()
    corpus, valid = read_corpus("train"), read_corpus("valid")
    tokenizers = get_tokenizers(model_dir, corpus)
    model = make_model(*tokenizers)
    translator = Translator(model, *tokenizers, FLAGS.max_source_length)
    lengths = {
        "batch_size": FLAGS.batch_size,
        "max_source_length": FLAGS.max_source_length,
        "max_target_length": FLAGS.max_target_length,
    }
    train = training_dataset(corpus, *tokenizers, seed=FLAGS.seed, **lengths)
    validation_data = evaluation_dataset(valid, *tokenizers, **lengths)
    print(_describe(train.summary))
    source_size, target_size = (t.vocabulary_size for t in tokenizers)
    print(
        f"{model.count_params():,} parameters; source vocabulary {source_size}, target "
        f"vocabulary {target_size}"
    )
    compile_model(model, FLAGS.epochs * train.summary.batches)
    bleu = make_bleu(translator, valid, model_dir)
    state = TrainingState(model_dir / "checkpoints", bleu)
    epochs_done = state.restore(model)
    if epochs_done >= FLAGS.epochs or state.stopped:
        print(f"Nothing to do: {epochs_done} epochs are done. Best dev {_best(bleu)}.")
        return
    if epochs_done:
        print(f"Resuming after {epochs_done} epochs. Best dev so far {_best(bleu)}.")
    start = time.monotonic()
    fit(model, train, validation_data, model_dir, bleu, state, epochs_done)
    minutes = (time.monotonic() - start) / 60
    print(
        f"Best dev {_best(bleu)}; {minutes:.1f} minutes, {bleu.seconds / 60:.1f} of "
        f"them dev decoding. The model is in {model_dir}."
    )


def _describe(summary) -> str:
    text = (
        f"Training on {summary.kept:,} of {summary.pairs:,} pairs, "
        f"{summary.target_tokens:,} target tokens in {summary.batches:,} batches"
    )
    if summary.kept < summary.pairs:
        text += (
            f"; left out: {summary.dropped_empty:,} with an empty side, "
            f"{summary.dropped_long:,} longer than --max_source_length="
            f"{FLAGS.max_source_length} or --max_target_length="
            f"{FLAGS.max_target_length}"
        )
    return text


def _best(bleu: ValidationBLEU) -> str:
    return f"BLEU {bleu.best:.2f} (epoch {bleu.best_epoch + 1})"


if __name__ == "__main__":
    define_flags()
    common.run(main)
