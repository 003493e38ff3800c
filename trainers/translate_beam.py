"""Translate more text than one machine should, with Apache Beam.

    python -m trainers.translate_beam --export_dir=export/de-en \\
        --input=crawl.de --output=crawl.en \\
        -- --direct_num_workers=4 --direct_running_mode=multi_processing

What follows -- are options of Beam. The input is divided into shards of --shard_lines
lines, and each becomes a file in the directory --output: `cat OUTPUT/part-*` has one
line for each line of the input. The same command again does the shards that are
missing. The model, and with it beam width and lengths, is one that trainers.export
wrote.

Exit status: 0 when every line is translated, 3 when all is done but lines that could
not be translated (the dead letters, OUTPUT/dead-*.jsonl), 1 when it is not done.
"""

import os
import sys

import tensorflow as tf
from absl import flags, logging
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from trainers import flags as common

FLAGS = flags.FLAGS

DEAD_LETTERS_STATUS = 3
# Of an exported signature; attention is there when the model has some.
_OUTPUTS = [
    *("text", "tokens", "lengths", "score"),
    *("source_tokens", "source_lengths", "source_truncated"),
]


def define_flags() -> None:
    flags.DEFINE_string(
        "export_dir",
        None,
        "Exported model: the directory of the versions, of which the latest is taken, "
        "or that of one version.",
        required=True,
    )
    flags.DEFINE_string(
        "input",
        None,
        "File of texts, UTF-8, one a line, or a pattern such as 'data/*.txt', whose "
        "files are taken in the order of their names; gzip when a name ends with .gz.",
        required=True,
    )
    flags.DEFINE_string(
        "output",
        None,
        "Directory for the translations, made when missing. What it has of the same "
        "run is kept.",
        required=True,
    )
    flags.DEFINE_enum(
        "output_format",
        "text",
        ["text", "json"],
        "text: translations, one a line, part-*.txt. json: JSON Lines, part-*.jsonl: "
        "id (0 for the first line of the input), text, tokens, source_tokens, score, "
        "truncated (whether the source was cut); of a line that failed: id, text "
        "(empty), error.",
    )
    flags.DEFINE_bool(
        "attention",
        False,
        "With --output_format=json, attention too: a row of weights for each token, 6 "
        "decimals.",
    )
    flags.DEFINE_bool("gzip", False, "Write the parts as gzip, with the ending .gz.")
    flags.DEFINE_integer(
        "shard_lines",
        2048,
        "Lines that one worker reads, translates and writes in one go. Texts of like "
        "length are looked for among them.",
        lower_bound=1,
    )
    flags.DEFINE_string(
        "runner",
        "DirectRunner",
        "Runner of Beam, such as FlinkRunner, SparkRunner or DataflowRunner. "
        "DirectRunner is Beam's own on this machine; its --direct_num_workers and "
        "--direct_running_mode stand after --.",
    )
    common.define_batch_size()


def main(arguments: list[str]) -> None:
    """Translate as the flags say.

    Args:
        arguments: options of Beam.
    """
    if FLAGS.attention and FLAGS.output_format != "json":
        raise ValueError("--attention: Expected --output_format=json. Received: text")
    try:
        from trainers import beam_pipeline, beam_shards
    except ImportError as error:
        raise ValueError(
            f"trainers.translate_beam needs the package apache-beam ({error}). Install "
            "it with: pip install 'keras_attn[beam]'"
        ) from error
    pipeline = beam_pipeline.new_pipeline(
        FLAGS.runner, arguments, logging.converter.absl_to_standard(FLAGS.verbosity)
    )
    version = find_version(_absolute(FLAGS.export_dir))
    check_signature(version, beam_pipeline.SIGNATURE)
    if "://" not in FLAGS.output:
        common.check_directory("output", FLAGS.output)
    paths = beam_shards.input_files(_absolute(FLAGS.input))
    shards, files = beam_shards.shards_of(paths, FLAGS.shard_lines)
    output = beam_shards.Output(
        _absolute(FLAGS.output), FLAGS.output_format, FLAGS.attention, FLAGS.gzip
    )
    model = tf.saved_model.experimental.read_fingerprint(version).singleprint()
    output.claim(model=model, shard_lines=FLAGS.shard_lines, files=files)
    missing = output.missing(shards)
    if missing:
        handler = beam_pipeline.TranslationModelHandler(
            version, FLAGS.batch_size, FLAGS.attention
        )
        cut = beam_pipeline.run(pipeline, missing, handler, output)
        if cut:
            common.warn(f"{cut} text(s) longer than the model reads were cut")
    output.tidy()
    print(
        f"{sum(file['lines'] for file in files)} line(s) in {len(shards)} part(s), "
        f"{len(missing)} of them new: {output.directory}"
    )
    dead_letters = output.count_dead_letters(shards)
    if dead_letters:
        common.warn(
            f"{dead_letters} line(s) could not be translated: "
            f"{output.directory}/dead-*.jsonl"
        )
        sys.exit(DEAD_LETTERS_STATUS)


def find_version(export_dir: str) -> str:
    """The directory of the latest version, or the one given if it is a version.

    Raises:
        ValueError: there is no version.
    """
    if tf.io.gfile.exists(f"{export_dir}/saved_model.pb"):
        return export_dir
    names = []
    if tf.io.gfile.isdir(export_dir):
        names = [name.rstrip("/") for name in tf.io.gfile.listdir(export_dir)]
    versions = [name for name in names if name.isascii() and name.isdigit()]
    if not versions:
        raise ValueError(
            "--export_dir: Expected what trainers.export wrote, such as a version "
            f"{export_dir}/1. Received: {export_dir}, which has no version"
        )
    return f"{export_dir}/{max(versions, key=int)}"


def check_signature(version: str, name: str) -> None:
    """Check, before there is work to lose, that a model gives the answers needed.

    Raises:
        ValueError: it does not, or cannot be read.
    """
    expected = [*_OUTPUTS, "attention"] if FLAGS.attention else _OUTPUTS
    path = f"{version}/saved_model.pb"
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            saved_model = saved_model_pb2.SavedModel.FromString(file.read())
    except (tf.errors.OpError, DecodeError) as error:
        raise ValueError(f"--export_dir: Cannot read {path}: {error}") from error
    signatures = {}
    for meta_graph in saved_model.meta_graphs:
        signatures.update(meta_graph.signature_def)
    outputs = signatures[name].outputs if name in signatures else ()
    lacking = [output for output in expected if output not in outputs]
    if lacking:
        raise ValueError(
            f"--export_dir: Expected a signature {name} with the outputs "
            f"{', '.join(expected)}. Received: {version}, which lacks "
            f"{', '.join(lacking)}"
        )


def _absolute(path):
    """The path as it is for workers, which may run in another directory."""
    return path.rstrip("/") if "://" in path else os.path.abspath(path)


if __name__ == "__main__":
    define_flags()
    FLAGS.verbosity = logging.ERROR  # --verbosity=0 shows the log of Beam
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    beam_arguments = sys.argv[end + 1 :]
    del sys.argv[end:]
    common.run(lambda: main(beam_arguments))
