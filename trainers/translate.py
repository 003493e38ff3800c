"""Translate text, one text a line.

    python -m trainers.translate --model_dir=runs/de-en \\
        --input=test.de --output=test.hyp

The output has one line for each line of the input, a blank one for a blank one. A text
longer than the model reads is cut there; a warning names its line.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

from absl import flags

from keras_attn import Translator
from keras_attn.translator import Translation
from trainers import flags as common
from trainers.texts import check_output, one_line, read_texts, write_texts

FLAGS = flags.FLAGS

# Batches translated, and then written, at a time: memory holds no more of them, while
# texts of like length are still found to make a batch of.
_BATCHES = 64
# Line numbers that a warning lists.
_LISTED = 10


def define_flags() -> None:
    common.define_model_dir("Directory of the training run.")
    flags.DEFINE_string(
        "input",
        "-",
        "File of texts, UTF-8, one a line, gzip when its name ends with .gz; - is "
        "standard input.",
    )
    flags.DEFINE_string(
        "output",
        "-",
        "File for the translations, one a line, gzip when its name ends with .gz; - is "
        "standard output. An older file is replaced once all is translated.",
    )
    flags.DEFINE_string(
        "attention_output",
        None,
        "File for JSON Lines, one object a translation: text, tokens, source_tokens, "
        "attention (a row of weights for each token, 6 decimals), score, truncated "
        "(whether the source was cut); with --n_best also line, from 0, and rank, from "
        "1. Gzip and - as for --output.",
    )
    flags.DEFINE_integer(
        "n_best",
        None,
        "Write this many translations of each text, best first, as lines of `line ||| "
        "text ||| score`, the first line being 0 as in Moses. There may be fewer of a "
        "text; a blank one has one.",
        lower_bound=1,
    )
    common.define_batch_size()
    common.define_decoding()


def main() -> None:
    _check_flags()
    texts = read_texts(FLAGS.input)
    translator = common.load_translator(
        "attention_output" if FLAGS.attention_output else None
    )
    cut: list[int] = []

    def write(output: TextIO, attention_output: TextIO | None = None) -> None:
        translations = translate(translator, texts)
        cut.extend(write_translations(translations, output, attention_output))

    if FLAGS.attention_output is None:
        write_texts(FLAGS.output, write)
    else:
        write_texts(
            FLAGS.attention_output,
            lambda attention_output: write_texts(
                FLAGS.output, lambda output: write(output, attention_output)
            ),
        )
    if cut:
        _warn_of_cut(cut, translator.max_source_length)


def translate(translator: Translator, texts: list[str]) -> Iterator[list[Translation]]:
    """The translations of each text: the best, or --n_best of them."""
    options = {"batch_size": FLAGS.batch_size, **common.decoding_options()}
    size = _BATCHES * FLAGS.batch_size
    bar = common.progress_bar(len(texts))
    for start in range(0, len(texts), size):
        progress = bar and _counting_from(start, bar)
        chunk = texts[start : start + size]
        if FLAGS.n_best is None:
            best = translator.translate(chunk, progress=progress, **options)
            yield from ([translation] for translation in best)
        else:
            found = translator.translate_n_best(chunk, progress=progress, **options)
            yield from (hypotheses[: FLAGS.n_best] for hypotheses in found)


def _counting_from(start: int, bar: Callable[[int], None]) -> Callable[[int], None]:
    return lambda done: bar(start + done)


def write_translations(
    translations: Iterable[list[Translation]],
    output: TextIO,
    attention_output: TextIO | None = None,
) -> list[int]:
    """Write translations as the flags say.

    Returns:
        The numbers, from 1, of the lines whose text was cut.
    """
    cut = []
    for line, hypotheses in enumerate(translations):
        if hypotheses[0].truncated:
            cut.append(line + 1)
        for rank, hypothesis in enumerate(hypotheses, 1):
            text = one_line(hypothesis.text)
            if FLAGS.n_best is not None:
                text = f"{line} ||| {text} ||| {hypothesis.score:.6f}"
            print(text, file=output)
            if attention_output is not None:
                place = {} if FLAGS.n_best is None else {"line": line, "rank": rank}
                answer = {**place, **as_json(hypothesis)}
                print(json.dumps(answer, ensure_ascii=False), file=attention_output)
    return cut


def as_json(translation: Translation) -> dict:
    """A translation as JSON values."""
    assert translation.attention is not None
    return {
        "text": translation.text,
        "tokens": translation.tokens,
        "source_tokens": translation.source_tokens,
        "attention": translation.attention.astype("float64").round(6).tolist(),
        "score": translation.score,
        "truncated": translation.truncated,
    }


def _check_flags() -> None:
    if FLAGS.n_best is not None and FLAGS.n_best > FLAGS.beam_width:
        raise ValueError(
            f"--n_best: Expected at most --beam_width={FLAGS.beam_width}. Received: "
            f"{FLAGS.n_best}"
        )
    check_output("output", FLAGS.output)
    if FLAGS.attention_output is None:
        return
    check_output("attention_output", FLAGS.attention_output)
    both = (FLAGS.output, FLAGS.attention_output)
    if len({"-" if path == "-" else os.path.realpath(path) for path in both}) == 1:
        raise ValueError(
            "--attention_output: Expected another place than --output. Received: "
            f"{FLAGS.attention_output} for both"
        )


def _warn_of_cut(lines: list[int], max_source_length: int) -> None:
    numbers = ", ".join(map(str, lines[:_LISTED]))
    more = f" and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
    common.warn(
        f"{len(lines)} text(s) longer than the model reads were cut to their first "
        f"{max_source_length - 1} tokens: line {numbers}{more}"
    )


if __name__ == "__main__":
    define_flags()
    common.run(main)
