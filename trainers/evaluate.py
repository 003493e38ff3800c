"""Translate a test set and score the translations against its references.

    python -m trainers.evaluate --model_dir=runs/de-en --source=test.de \\
        --reference=test.en

Prints BLEU and chrF with sacreBLEU's signatures, which tell others how to get the same
numbers, the exact matches, and the time that translating took.
"""

import json
import time

from absl import flags

from keras_attn.evaluation import corpus_scores, exact_match
from trainers import flags as common
from trainers.texts import check_output, one_line, write_texts

FLAGS = flags.FLAGS


def define_flags() -> None:
    common.define_model_dir("Directory of the training run.")
    flags.DEFINE_string("source", None, "File of source texts, UTF-8, one a line.")
    flags.DEFINE_string("reference", None, "File of their reference translations.")
    flags.DEFINE_string(
        "tsv",
        None,
        "One file of source<TAB>reference lines in place of --source and --reference. "
        "All files may be gzip (.gz).",
    )
    flags.DEFINE_string(
        "hypotheses",
        None,
        "File to write the translations to, one a line; gzip when its name ends with "
        ".gz.",
    )
    flags.DEFINE_bool("json", False, "Print one JSON object in place of text.")
    common.define_bleu_tokenize(
        "sacreBLEU's tokenizer for BLEU; none for text that is tokenized already."
    )
    flags.DEFINE_bool("lowercase", False, "Ignore case in BLEU and chrF.")
    common.define_batch_size()
    common.define_decoding()


def main() -> None:
    common.check_bleu_tokenize()
    if FLAGS.hypotheses is not None:
        _check_hypotheses(FLAGS.hypotheses)
    corpus = common.read_corpus("source", "reference", "tsv")
    translator = common.load_translator()
    start = time.monotonic()
    translations = translator.translate(
        corpus.sources(),
        batch_size=FLAGS.batch_size,
        progress=common.progress_bar(corpus.size),
        **common.decoding_options(),
    )
    seconds = time.monotonic() - start
    hypotheses = [one_line(translation.text) for translation in translations]
    if FLAGS.hypotheses is not None:
        write_texts(
            FLAGS.hypotheses,
            lambda file: file.writelines(f"{text}\n" for text in hypotheses),
        )
    references = list(corpus.targets())
    scores = corpus_scores(
        hypotheses,
        references,
        tokenize=FLAGS.bleu_tokenize,
        lowercase=FLAGS.lowercase,
    )
    result = {
        **scores.to_dict(),
        "exact_match": exact_match(hypotheses, references),
        "sentences": len(hypotheses),
        "truncated": sum(translation.truncated for translation in translations),
        "seconds": seconds,
        "sentences_per_second": len(hypotheses) / seconds,
        "model_dir": FLAGS.model_dir,
        **common.decoding_options(),
    }
    print(json.dumps(result) if FLAGS.json else f"{scores}\n{_describe(result)}")
    if result["truncated"]:
        common.warn(
            f"{result['truncated']} source text(s) longer than the model reads were "
            f"cut to their first {translator.max_source_length - 1} tokens"
        )


def _check_hypotheses(path: str) -> None:
    if path == "-":
        raise ValueError(
            "--hypotheses: Expected a file. Received: -, but standard output is for "
            "the scores"
        )
    check_output("hypotheses", path)


def _describe(result: dict) -> str:
    return (
        f"exact match {result['exact_match']:.2f} %\n"
        f"{result['sentences']:,} sentences in {result['seconds']:.1f} s "
        f"({result['sentences_per_second']:.1f} sentences/s) with "
        f"--beam_width={result['beam_width']} --max_length={result['max_length']} "
        f"--length_penalty={result['length_penalty']}"
    )


if __name__ == "__main__":
    define_flags()
    common.run(main)
