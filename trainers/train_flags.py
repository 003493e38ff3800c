"""The flags of `trainers.train_translation`."""

from typing import Any

from absl import flags

from keras_attn.models.seq2seq import ATTENTIONS, BRIDGES
from keras_attn.text import CharacterTokenizer, SentencePieceTokenizer, WordTokenizer
from keras_attn.training.schedules import SCHEDULES
from trainers import flags as common

FLAGS = flags.FLAGS

TOKENIZERS: dict[str, Any] = {
    "sentencepiece": SentencePieceTokenizer,
    "word": WordTokenizer,
    "character": CharacterTokenizer,
}

# Flags that do not change what is trained, and so may differ when a run is resumed.
FREE_FLAGS = ("model_dir", "tensorboard", "valid_batch_size")


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
    flags.DEFINE_integer("batch_size", 64, "Sentences a step.", lower_bound=1)
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
    flags.DEFINE_bool("tensorboard", True, "Write TensorBoard logs to MODEL_DIR/logs.")


def run_options() -> dict:
    """The flags that define the run, as JSON values."""
    module_flags = FLAGS.get_flags_for_module(__name__)
    module_flags += FLAGS.get_flags_for_module(common.__name__)
    return {f.name: f.value for f in module_flags if f.name not in FREE_FLAGS}
