"""Train a sequence-to-sequence model from parallel text.

    python -m trainers.train_translation \\
        --train_source=train.de --train_target=train.en \\
        --valid_source=valid.de --valid_target=valid.en --model_dir=runs/de-en

Writes to MODEL_DIR: the best model by dev BLEU and its tokenizers, as
`keras_attn.Translator.load` reads them; `logs/` for TensorBoard; and `checkpoints/`.
The same command resumes a run that was interrupted, and does nothing for one that is
done. docs/scaling.md tells how to train on several GPUs and machines.
"""

import json
import os
import pathlib
import sys
import time

import keras
from absl import flags

from keras_attn import Translator, files
from keras_attn.data import (
    CorpusError,
    EpochSeed,
    ParallelCorpus,
    evaluation_dataset,
    training_dataset,
)
from keras_attn.models import AttentionSeq2Seq
from keras_attn.text import Tokenizer, load_tokenizer
from keras_attn.training import (
    FusedAdam,
    MaskedCrossEntropy,
    Perplexity,
    TokenAccuracy,
    TrainingState,
    ValidationBLEU,
    distribution,
    make_schedule,
)
from keras_attn.training.workers import (
    WorkerLostError,
    Workers,
    naming_lost_workers,
    require_same,
)
from trainers import flags as common
from trainers.train_flags import TOKENIZERS, define_flags, profile_steps, run_options

FLAGS = flags.FLAGS

# The flags of a run, in its directory.
OPTIONS = pathlib.Path("checkpoints", "options.json")


def read_corpus(split: str) -> ParallelCorpus:
    """The corpus that the flags of "train" or "valid" name."""
    names = (f"{split}_{part}" for part in ("source", "target", "tsv"))
    streamed = split == "train" and FLAGS.steps_per_epoch is not None
    return common.read_corpus(*names, lazy=streamed)


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
    texts = corpus.sources if side == "source" else corpus.targets
    kind = getattr(FLAGS, f"{side}_tokenizer")
    size = getattr(FLAGS, f"{side}_vocabulary_size") or None
    if size is None and kind == "sentencepiece":
        raise ValueError(
            f"--{side}_vocabulary_size=0 takes every word or character; SentencePiece "
            "needs a number."
        )
    try:
        return TOKENIZERS[kind].train(texts(FLAGS.tokenizer_sample), size)
    except CorpusError:
        raise
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
    replicated = model.distribute_strategy.num_replicas_in_sync > 1
    adam = distribution.ReplicatedAdam if replicated else FusedAdam
    optimizer = adam(rate, global_clipnorm=FLAGS.clip_norm or None)
    if FLAGS.dtype_policy == "mixed_float16":
        # Keras would do it only where the model itself has the policy.
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model.compile(
        optimizer,
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


def chief_callbacks(model_dir, bleu, state) -> list[keras.callbacks.Callback]:
    """Those that write; from here on MODEL_DIR is written to."""
    # Whatever is wrong with the flags or the files has been found by now.
    (model_dir / OPTIONS).parent.mkdir(parents=True, exist_ok=True)
    files.write_text_atomically(
        model_dir / OPTIONS, json.dumps(run_options(), indent=1) + "\n"
    )
    callbacks = [bleu]
    if FLAGS.tensorboard:
        callbacks.append(
            keras.callbacks.TensorBoard(
                model_dir / "logs",
                write_graph=False,
                update_freq=100,
                profile_batch=profile_steps(),
            )
        )
    return [*callbacks, state]


def fit(model, train, validation_data, model_dir, bleu, state, epochs_done) -> None:
    """Train from `epochs_done` on. The chief of several workers writes and reports."""
    chief = Workers.of(model.distribute_strategy).is_chief
    # A bar on a terminal, a line an epoch in a file.
    verbose = 1 if sys.stdout.isatty() else 2
    with train.reading():
        distribution.fit(
            model,
            train.dataset,
            epochs=FLAGS.epochs,
            initial_epoch=epochs_done,
            validation_data=validation_data,
            callbacks=[
                EpochSeed(train),
                *(chief_callbacks(model_dir, bleu, state) if chief else ()),
            ],
            verbose=verbose if chief else 0,
        )


def main() -> None:
    # Before anything else runs on TensorFlow.
    try:
        strategy = distribution.make_strategy(FLAGS.strategy)
        print(distribution.describe(strategy), flush=True)
        with naming_lost_workers(Workers.of(strategy)):
            train_model(strategy)
    except WorkerLostError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        # At once, so that the job can start again. The usual end of the interpreter
        # has taken a minute here, and another worker may be waiting for this one.
        os._exit(1)


def train_model(strategy) -> None:
    """Train under a strategy."""
    keras.utils.set_random_seed(FLAGS.seed)
    model_dir = pathlib.Path(FLAGS.model_dir)
    if Workers.of(strategy).is_chief:
        common.check_directory("model_dir", model_dir)
    common.check_bleu_tokenize()
    profile_steps()
    if FLAGS.dtype_policy == "mixed_float16" and strategy.num_replicas_in_sync > 1:
        raise ValueError(
            "--dtype_policy=mixed_float16: Expected float32 or mixed_bfloat16 where "
            f"there are several replicas. Received: {strategy.num_replicas_in_sync} of "
            "them; --strategy=none trains on one"
        )
    corpus, valid = read_corpus("train"), read_corpus("valid")
    tokenizers = get_tokenizers(model_dir, corpus)
    with strategy.scope():
        model = make_model(*tokenizers)
    translator = Translator(model, *tokenizers, FLAGS.max_source_length)
    lengths = {
        "batch_size": FLAGS.batch_size,
        "max_source_length": FLAGS.max_source_length,
        "max_target_length": FLAGS.max_target_length,
    }
    train = training_dataset(
        corpus,
        *tokenizers,
        seed=FLAGS.seed,
        steps_per_epoch=FLAGS.steps_per_epoch,
        shuffle_buffer=FLAGS.shuffle_buffer,
        **lengths,
    )
    validation_data = evaluation_dataset(valid, *tokenizers, **lengths)
    print(_describe(train.summary))
    source_size, target_size = (t.vocabulary_size for t in tokenizers)
    print(
        f"{model.count_params():,} parameters; source vocabulary {source_size}, target "
        f"vocabulary {target_size}"
    )
    bleu = make_bleu(translator, valid, model_dir)
    state = TrainingState(model_dir / "checkpoints", bleu)
    with strategy.scope():
        compile_model(model, FLAGS.epochs * train.summary.batches)
        epochs_done = state.restore(model)
    require_same(strategy, **run_options(), epochs_done=epochs_done)
    if epochs_done >= FLAGS.epochs or state.stopped:
        print(f"Nothing to do: {epochs_done} epochs are done. Best dev {_best(bleu)}.")
        return
    if epochs_done:
        print(f"Resuming after {epochs_done} epochs. Best dev so far {_best(bleu)}.")
    start = time.monotonic()
    fit(model, train, validation_data, model_dir, bleu, state, epochs_done)
    minutes = (time.monotonic() - start) / 60
    if not Workers.of(strategy).is_chief:
        return
    print(
        f"Best dev {_best(bleu)}; {minutes:.1f} minutes, {bleu.seconds / 60:.1f} of "
        f"them dev decoding. The model is in {model_dir}."
    )


def _describe(summary) -> str:
    text = (
        f"Training on {summary.kept:,} of {summary.pairs:,} pairs, "
        f"{summary.target_tokens:,} target tokens in {summary.batches:,} batches"
    )
    if FLAGS.steps_per_epoch:
        text = (
            f"Training on {summary.batches:,} batches an epoch; of the first "
            f"{summary.pairs:,} pairs {summary.kept:,} are used"
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
