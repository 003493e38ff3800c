"""What Beam's workers do in `trainers.translate_beam`.

A shard is read, translated and written by one worker in one go. So order, memory and
going on after an interruption are matters of a shard, and nothing is gathered anywhere.
"""

import dataclasses
import json
from collections.abc import Iterable, Sequence

import apache_beam as beam
import numpy as np
import tensorflow as tf
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.ml.inference.base import KeyedModelHandler, ModelHandler, RunInference
from apache_beam.options.pipeline_options import (
    PipelineOptions,
    StandardOptions,
    TypeOptions,
)
from apache_beam.runners.runner import PipelineState

from keras_attn.data.lines import MAX_LINE_BYTES
from keras_attn.translation import Translation, translations_of
from trainers.beam_shards import Output, Shard, open_input
from trainers.texts import one_line

SIGNATURE = "serving_default"
_METRICS = "keras_attn"
# Outputs that are of the source, and so of all hypotheses.
_OF_SOURCE = ("source_tokens", "source_lengths", "source_truncated")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# What a dead letter shows of a line too long to be read.
_SHOWN = 1000


@dataclasses.dataclass(frozen=True)
class Failure:
    """A line that could not be translated, and the reason."""

    text: str
    reason: str


Line = str | Failure
Result = Translation | Failure


def read_shard(shard: Shard) -> list[Line]:
    """The lines of a shard, read as `keras_attn.data` reads them.

    A line that is too long or not UTF-8 is a `Failure`.

    Raises:
        ValueError: the file has fewer lines than it had.
    """
    # Room for a byte order mark and CR LF.
    most = MAX_LINE_BYTES + len(_BYTE_ORDER_MARK) + 2
    lines: list[Line] = []
    with open_input(shard.path) as file:
        file.seek(shard.start)
        while len(lines) < shard.lines:
            raw = file.readline(most)
            if not raw:
                raise ValueError(f"{shard.path} was cut while it was translated")
            whole = len(raw) < most or raw.endswith(b"\n")
            line = raw.removesuffix(b"\n").replace(b"\r", b"")
            if shard.start == 0 and not lines:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            lines.append(_checked(line, whole))
            while not whole:
                raw = file.readline(most)
                whole = len(raw) < most or raw.endswith(b"\n")
    return lines


def _checked(line, whole):
    if not whole or len(line) > MAX_LINE_BYTES:
        reason = f"Line too long. Expected at most {MAX_LINE_BYTES} bytes"
        return Failure(line[:_SHOWN].decode("utf-8", "backslashreplace"), reason)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"Invalid UTF-8: {error.reason} at byte {error.start + 1} of the line"
        return Failure(line.decode("utf-8", "backslashreplace"), reason)


class TranslationModelHandler(ModelHandler[Sequence[Line], list[Result], object]):
    """Translates with a version that `keras_attn.export` wrote.

    An example is a list of lines, such as those of a shard, and its prediction the list
    of their `Translation`s. Texts of like length are decoded together, as
    `Translator.translate` does. A text that fails is found by halving its batch, and
    becomes a `Failure`, as is a line that was one.

    Args:
        path: the directory of the version.
        batch_size: texts decoded at once.
        attention: whether translations have their attention.
    """

    def __init__(self, path: str, batch_size: int = 32, attention: bool = False):
        # A list of lines is a batch already.
        super().__init__(min_batch_size=1, max_batch_size=1)
        self._path = path
        self._batch_size = batch_size
        self._attention = attention

    def load_model(self):
        import tensorflow_text  # noqa: F401 - the graph has operations of it

        return tf.saved_model.load(self._path)

    def run_inference(
        self, batch: Sequence[Sequence[Line]], model, inference_args=None
    ) -> Iterable[list[Result]]:
        return [self._translate(lines, model.signatures[SIGNATURE]) for lines in batch]

    def get_metrics_namespace(self) -> str:
        return _METRICS

    def _translate(self, lines, signature):
        results = list(lines)
        texts = [i for i, line in enumerate(lines) if isinstance(line, str)]
        texts.sort(key=lambda i: len(lines[i]))
        for start in range(0, len(texts), self._batch_size):
            batch = texts[start : start + self._batch_size]
            answers = self._answer([lines[i] for i in batch], signature)
            for i, answer in zip(batch, answers, strict=True):
                results[i] = answer
        return results

    def _answer(self, texts, signature):
        try:
            return self._decode(texts, signature)
        except (tf.errors.OpError, UnicodeError) as error:
            if len(texts) > 1:
                half = len(texts) // 2
                return [
                    *self._answer(texts[:half], signature),
                    *self._answer(texts[half:], signature),
                ]
            # A model that fails on a blank text fails on all: an error of the run.
            self._decode([""], signature)
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            return [Failure(texts[0], reason)]

    def _decode(self, texts, signature):
        answer = signature(text=tf.constant([text.encode("utf-8") for text in texts]))
        arrays = {
            key: value.numpy() if key in _OF_SOURCE else value.numpy()[:, None]
            for key, value in answer.items()
            if self._attention or key != "attention"
        }
        return [translations_of(arrays, row)[0] for row in range(len(texts))]


def write_shard(keyed: tuple[Shard, list[Result]], output: Output) -> None:
    """Write the translations of a shard, and its dead letters before them.

    A shard with a part is done: it must not lack its dead letters.
    """
    shard, results = keyed
    dead_letters = [
        {
            "id": shard.first_id + offset,
            "file": shard.path,
            "line": shard.first_line + offset,
            **dataclasses.asdict(result),
        }
        for offset, result in enumerate(results)
        if isinstance(result, Failure)
    ]
    path = output.dead_letters(shard)
    if dead_letters:
        output.write(path, "".join(map(_json_line, dead_letters)))
    elif FileSystems.exists(path):
        FileSystems.delete([path])  # of an attempt that was not completed
    rows = [
        _row(shard.first_id + offset, result, output)
        for offset, result in enumerate(results)
    ]
    output.write(output.part(shard), "".join(rows))
    cut = sum(isinstance(r, Translation) and r.truncated for r in results)
    Metrics.counter(_METRICS, "lines").inc(len(results))
    Metrics.counter(_METRICS, "dead_letters").inc(len(dead_letters))
    Metrics.counter(_METRICS, "cut").inc(cut)


def _row(number, result, output):
    if output.format == "text":
        return f"{'' if isinstance(result, Failure) else one_line(result.text)}\n"
    if isinstance(result, Failure):
        return _json_line({"id": number, "text": "", "error": result.reason})
    row = {
        "id": number,
        "text": result.text,
        "tokens": result.tokens,
        "source_tokens": result.source_tokens,
        "score": result.score,
        "truncated": result.truncated,
    }
    if output.attention:
        row["attention"] = result.attention.astype(np.float64).round(6).tolist()
    return _json_line(row)


def _json_line(value):
    return json.dumps(value, ensure_ascii=False) + "\n"


def new_pipeline(runner: str, arguments: list[str], log_level: int) -> beam.Pipeline:
    """A pipeline with nothing in it.

    Args:
        runner: name of Beam's runner.
        arguments: more options of Beam, as they are written on a command line.
        log_level: from which level of `logging` workers tell what they do.

    Raises:
        ValueError: there is no such runner, or it does not know an option.
    """
    level = f"--default_sdk_harness_log_level={log_level}"
    options = PipelineOptions([f"--runner={runner}", level, *arguments])
    # Where it can, DirectRunner hands over to Prism, which it fetches over the network
    # and which has no --direct_num_workers. This is one of the things Prism cannot do;
    # without triggers it means nothing.
    options.view_as(TypeOptions).allow_unsafe_triggers = True
    known = options.get_all_options()
    unknown = options.get_all_options(retain_unknown_options=True).keys() - known.keys()
    # Other runners have options that Beam's Python does not know.
    if unknown and known["runner"] in StandardOptions.LOCAL_RUNNERS:
        raise ValueError(
            f"Expected options of Beam's {known['runner']} after --. Received: "
            f"{' '.join(f'--{name}' for name in sorted(unknown))}"
        )
    return beam.Pipeline(options=options)


def run(
    pipeline: beam.Pipeline,
    shards: list[Shard],
    handler: TranslationModelHandler,
    output: Output,
) -> int:
    """Translate shards with an empty pipeline, and wait until it is done.

    Returns:
        The number of texts that were cut because they are longer than the model reads.

    Raises:
        RuntimeError: the pipeline failed.
    """
    _ = (
        pipeline
        | beam.Create(shards)
        | "Spread over the workers" >> beam.Reshuffle()
        | "Read" >> beam.Map(lambda shard: (shard, read_shard(shard)))
        | "Translate" >> RunInference(KeyedModelHandler(handler))
        | "Write" >> beam.Map(write_shard, output)
    )
    result = pipeline.run()
    state = result.wait_until_finish()
    if state != PipelineState.DONE:
        raise RuntimeError(f"The pipeline ended in the state {state}.")
    cut = MetricsFilter().with_namespace(_METRICS).with_name("cut")
    return sum(counter.result for counter in result.metrics().query(cut)["counters"])
