"""What the scripts share: decoding flags, progress, and errors as one clear line."""

import sys
from collections.abc import Callable

import keras
from absl import app, flags


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
        1.0,
        "Exponent of the length penalty ((5 + n) / 6)^x by which the log-probability of "
        "a hypothesis of n tokens is divided. Larger values give longer translations.",
        lower_bound=0.0,
    )


def define_model_dir(help_text: str) -> None:
    flags.DEFINE_string("model_dir", None, help_text, required=True)


def decoding_options() -> dict:
    """The values of `define_decoding` as arguments of `Translator.translate`."""
    names = ("beam_width", "max_length", "length_penalty")
    return {name: getattr(flags.FLAGS, name) for name in names}


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
        try:
            main()
        except (ValueError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(130)

    app.run(guarded)
