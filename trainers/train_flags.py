"""The flags of `trainers.train_translation`."""

import re
from typing import Any

from absl import flags

from keras_attn.models.seq2seq import ATTENTIONS, BRIDGES
from keras_attn.text import CharacterTokenizer, SentencePieceTokenizer, WordTokenizer
from keras_attn.training.distribution import STRATEGIES
from keras_attn.training.schedules import SCHEDULES
from trainers import flags as common

FLAGS = flags.FLAGS

TOKENIZERS: dict[str, Any] = {
    "sentencepiece": SentencePieceTokenizer,
    "word": WordTokenizer,
    "character": CharacterTokenizer,
}

# Flags that do not change what is trained, and so may differ when a run is resumed.
FREE_FLAGS = ("model_dir", "profile", "strategy", "tensorboard", "valid_batch_size")


def define_flags() -> None:
    common.define_model_dir("Directory of the run; made when missing.")
    for split in ("train", "valid"):
        flags.DEFINE_string(
            f"{split}_source", None, f"Source side of the {split} set, one text a line."
        )
        flags.DEFINE_string(f"{split}_target", None, f"Target side of the {split} set.")
        flags.DEFINE_string(
            f"{split}_tsv",
            None,
            f"The {split} set as one file of source<TAB>target lines, in place of "
            f"--{split}_source and --{split}_target. All files may be gzip (.gz).",
        )
    for side in ("source", "target"):
        flags.DEFINE_enum(
            f"{side}_tokenizer",
            "sentencepiece",
            list(TOKENIZERS),
            f"How {side} text is cut into tokens.",
        )
        flags.DEFINE_integer(
            f"{side}_vocabulary_size",
            8000,
            f"Number of {side} tokens, the 4 special ones among them. 0 takes every "
            "word or character of the training text.",
            lower_bound=0,
        )
        flags.DEFINE_integer(
            f"max_{side}_length",
            100,
            f"Training pairs with more {side} tokens than this are left out. Longer "
            "source texts are cut when translating.",
            lower_bound=2,
        )
    flags.DEFINE_integer(
        "tokenizer_sample",
        1_000_000,
        "The most lines that a tokenizer is made from. Of more they are spread evenly "
        "over the file; of a gzip file they are the first.",
        lower_bound=1,
    )
    _define_model_flags()
    _define_training_flags()


def _define_model_flags():
    flags.DEFINE_enum("rnn", "gru", ["gru", "lstm"], "Kind of the recurrent cells.")
    flags.DEFINE_enum(
        "attention", "bahdanau", [*ATTENTIONS, "none"], "Attention mechanism, or none."
    )
    flags.DEFINE_enum(
        "attend",
        "before",
        ["before", "after"],
        "Whether the decoder attends before its step (Bahdanau) or after it (Luong).",
    )
    flags.DEFINE_bool(
        "input_feeding",
        False,
        "Feed the readout to the next step (with --attend=after).",
    )
    flags.DEFINE_bool("bidirectional", True, "Read the source in both directions.")
    flags.DEFINE_bool(
        "reset_after", True, "GRU: apply the reset gate after the recurrent product."
    )
    flags.DEFINE_enum(
        "bridge",
        "dense",
        list(BRIDGES),
        "How the decoder's first state comes from the encoder's last.",
    )
    for name, value, text in (
        ("embedding_dim", 256, "Width of the embeddings."),
        ("encoder_units", 256, "Width of the encoder, per direction."),
        ("decoder_units", 256, "Width of the decoder."),
        ("encoder_layers", 1, "Encoder layers."),
        ("decoder_layers", 1, "Decoder layers."),
        ("readout_units", None, "Width of the readout; --decoder_units by default."),
    ):
        flags.DEFINE_integer(name, value, text, lower_bound=1)
    flags.DEFINE_float(
        "dropout",
        0.2,
        "Dropout rate on embeddings, memory and readout and between layers, unless a "
        "flag of its own says otherwise.",
        lower_bound=0.0,
        upper_bound=0.99,
    )
    for place in ("embedding", "memory", "readout"):
        flags.DEFINE_float(
            f"{place}_dropout",
            None,
            f"Dropout rate on the {place}; --dropout by default.",
            lower_bound=0.0,
            upper_bound=0.99,
        )


def _define_training_flags():
    flags.DEFINE_integer("epochs", 20, "Passes over the training set.", lower_bound=1)
    flags.DEFINE_integer(
        "steps_per_epoch",
        None,
        "Take this many steps for an epoch, and read the training set round and round: "
        "for one that is too large to be held in memory (4 bytes a token) or counted. "
        "Texts are then checked when their turn comes.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "shuffle_buffer",
        100_000,
        "Pairs among which the next is drawn, with --steps_per_epoch. Without it the "
        "order is random throughout.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "batch_size", 64, "Sentences a step, of all workers together.", lower_bound=1
    )
    flags.DEFINE_float(
        "learning_rate", 1e-3, "Largest learning rate of Adam.", lower_bound=0.0
    )
    flags.DEFINE_enum("schedule", "cosine", list(SCHEDULES), "Learning-rate schedule.")
    flags.DEFINE_integer(
        "warmup_steps",
        500,
        "Steps of linear warm-up (not for constant).",
        lower_bound=0,
    )
    flags.DEFINE_float(
        "label_smoothing", 0.1, "Label smoothing.", lower_bound=0.0, upper_bound=0.99
    )
    flags.DEFINE_float(
        "clip_norm", 1.0, "Largest norm of the gradient; 0 = any.", lower_bound=0.0
    )
    flags.DEFINE_integer(
        "patience",
        None,
        "Stop after this many epochs without a better dev BLEU; never by default.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "valid_beam_width", 1, "Beam width of the dev decoding.", lower_bound=1
    )
    flags.DEFINE_integer(
        "valid_batch_size", 64, "Sentences a batch of the dev decoding.", lower_bound=1
    )
    common.define_bleu_tokenize(
        "sacreBLEU's tokenizer for the dev BLEU; none for text that is tokenized "
        "already."
    )
    flags.DEFINE_integer(
        "seed",
        0,
        "Seed of weights, dropout and shuffling.",
        lower_bound=0,
        upper_bound=2**31 - 1,
    )
    flags.DEFINE_enum(
        "dtype_policy",
        "float32",
        ["float32", "mixed_bfloat16", "mixed_float16"],
        "Precision of the computation; weights are float32.",
    )
    flags.DEFINE_enum(
        "strategy",
        "auto",
        list(STRATEGIES),
        "Where to train: on one device (none), on all GPUs of this machine (mirrored), "
        "or as one of the workers that the environment variable TF_CONFIG lists "
        "(multi_worker). auto is multi_worker where TF_CONFIG lists workers, mirrored "
        "where there are several GPUs, and none elsewhere; the first line of the "
        "output tells which.",
    )
    flags.DEFINE_bool("tensorboard", True, "Write TensorBoard logs to MODEL_DIR/logs.")
    flags.DEFINE_string(
        "profile",
        None,
        "FIRST_STEP,LAST_STEP: write a trace of these steps to MODEL_DIR/logs, for "
        "TensorBoard's profiler. Step 1 is the first that this command takes, which "
        "compiles; none are traced by default.",
    )


def profile_steps() -> tuple[int, int] | int:
    """--profile as `keras.callbacks.TensorBoard` takes it; 0 is none.

    Raises:
        ValueError: it is not two steps in order, or there are no logs to write it to.
    """
    if FLAGS.profile is None:
        return 0
    steps = re.fullmatch(r"([1-9][0-9]*),([1-9][0-9]*)", FLAGS.profile)
    first, last = map(int, steps.groups()) if steps else (1, 0)
    if first > last:
        raise ValueError(
            "--profile: Expected FIRST_STEP,LAST_STEP with 1 <= FIRST_STEP <= "
            f"LAST_STEP. Received: --profile={FLAGS.profile}"
        )
    if not FLAGS.tensorboard:
        raise ValueError(
            "--profile: Expected --tensorboard, whose logs the trace is part of. "
            "Received: --notensorboard"
        )
    return first, last


def run_options() -> dict:
    """The flags that define the run, as JSON values."""
    module_flags = FLAGS.get_flags_for_module(__name__)
    module_flags += FLAGS.get_flags_for_module(common.__name__)
    return {f.name: f.value for f in module_flags if f.name not in FREE_FLAGS}
