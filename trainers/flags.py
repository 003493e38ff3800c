"""What the scripts share: flags, models, progress, and errors as one clear line."""

import os
import sys
from collections.abc import Callable

import keras
from absl import app, flags
from sacrebleu.metrics import BLEU

from keras_attn import Translator
from keras_attn.data import ParallelCorpus
from keras_attn.evaluation import corpus_scores
from keras_attn.export import ExportError

_DECODING = ("beam_width", "max_length", "length_penalty")


def define_decoding(beam_width: int = 5) -> None:
    """The flags of every script that decodes."""
    flags.DEFINE_integer(
        "beam_width",
        beam_width,
        "Hypotheses kept while decoding; 1 is greedy search.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "max_length",
        100,
        "The most target tokens of a translation, </s> among them.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "length_penalty",
        0.6,
        "Exponent of the length penalty ((5 + n) / 6)^x by which the log-probability "
        "of a hypothesis of n tokens is divided. Larger values give longer "
        "translations.",
        lower_bound=0.0,
    )


def define_batch_size() -> None:
    flags.DEFINE_integer("batch_size", 32, "Texts decoded at once.", lower_bound=1)


def define_model_dir(help_text: str) -> None:
    flags.DEFINE_string("model_dir", None, help_text, required=True)


def define_bleu_tokenize(help_text: str) -> None:
    flags.DEFINE_enum("bleu_tokenize", "13a", list(BLEU.TOKENIZERS), help_text)


def decoding_options() -> dict:
    """The values of `define_decoding` as arguments of `Translator.translate`."""
    return {name: flags.FLAGS[name].value for name in _DECODING}


def check_bleu_tokenize() -> None:
    """Find out now, and not after hours, that a tokenizer's own package is missing.

    Raises:
        ValueError: it is.
    """
    name = flags.FLAGS.bleu_tokenize
    try:
        corpus_scores(["a"], ["a"], tokenize=name)
    except (RuntimeError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"--bleu_tokenize={name} cannot be used: {reason}") from error


def read_corpus(
    source: str, target: str, tsv: str, lazy: bool = False
) -> ParallelCorpus:
    """The parallel text that flags name: two files, or one in their place.

    Args:
        source: name of the flag with the file of source texts.
        target: name of the flag with the file of target texts.
        tsv: name of the flag with the file of both.
        lazy: whether to check texts when they are read, and not all of them now.

    Raises:
        ValueError: the flags, or the files, cannot be used.
    """
    paths = [flags.FLAGS[name].value for name in (source, target, tsv)]
    if paths[2] and not (paths[0] or paths[1]):
        return ParallelCorpus.from_tsv(paths[2], lazy=lazy)
    if paths[0] and paths[1] and not paths[2]:
        return ParallelCorpus.from_files(paths[0], paths[1], lazy=lazy)
    raise ValueError(
        f"Expected either --{source} and --{target}, or --{tsv}. Received: "
        f"--{source}={paths[0]} --{target}={paths[1]} --{tsv}={paths[2]}"
    )


def load_translator(attention_for: str | None = None) -> Translator:
    """The translator in --model_dir.

    Args:
        attention_for: the flag that needs a model with attention, if one does.

    Raises:
        ValueError: the model has no attention, or a file is corrupt.
        OSError: there is no model.
    """
    translator = Translator.load(flags.FLAGS.model_dir)
    if attention_for and translator.model.decoder.attention is None:
        raise ValueError(
            f"--{attention_for}: Expected a model with attention. Received: "
            f"--model_dir={flags.FLAGS.model_dir}, a model without (--attention=none)"
        )
    return translator


def check_directory(flag: str, path: str | os.PathLike) -> None:
    """Check that files can be written to a directory that may not exist yet.

    Raises:
        ValueError: they cannot.
    """
    path = os.path.abspath(path)
    nearest = path
    while not os.path.lexists(nearest):
        nearest = os.path.dirname(nearest)
    if not os.path.isdir(nearest):
        reason = f"{nearest} is not a directory"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        reason = f"there is no permission to write to {nearest}"
    else:
        return
    raise ValueError(
        f"--{flag}: Expected a directory that can be written to. Received: {path}; "
        f"{reason}"
    )


def warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def progress_bar(total: int, unit: str = "sentence") -> Callable[[int], None] | None:
    """A callback that draws a progress bar on a terminal's standard error."""
    if not sys.stderr.isatty() or not total:
        return None
    bar = keras.utils.Progbar(total, unit_name=unit)

    def update(done):
        # Progbar writes to standard output, which belongs to the results.
        stdout, sys.stdout = sys.stdout, sys.stderr
        try:
            bar.update(done)
        finally:
            sys.stdout = stdout

    return update


def run(main: Callable) -> None:
    """Run a script; an error a user can mend is one line and exit status 1."""

    def guarded(argv):
        if len(argv) > 1:
            raise app.UsageError(f"Unexpected arguments: {' '.join(argv[1:])}")
        # Texts are UTF-8 whatever the locale says.
        sys.stdout.reconfigure(encoding="utf-8")
        try:
            main()
            sys.stdout.flush()
        except BrokenPipeError:
            # Who read the output, such as `head`, has enough. Python would try once
            # more to write the rest when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except (ValueError, OSError, ExportError) as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(130)

    # --help lists the key flags of the script, which those defined here are too.
    for flag in flags.FLAGS.get_flags_for_module(__name__):
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    app.run(guarded)
