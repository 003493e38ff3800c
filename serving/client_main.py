"""The command line of `python -m serving.client`."""

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import grpc
from absl import app, flags

from serving.client import ClientError, Translation, TranslationClient

FLAGS = flags.FLAGS
_HINTS = {
    grpc.StatusCode.UNAVAILABLE: "Is the server running there? Start one with "
    "python -m serving.server.",
    grpc.StatusCode.NOT_FOUND: "Give the name the server was started with as "
    "--model_name.",
    grpc.StatusCode.DEADLINE_EXCEEDED: "Allow more time with --timeout_s, or send "
    "fewer texts at a time with --batch_size.",
    grpc.StatusCode.FAILED_PRECONDITION: "Is this model a translator exported by "
    "keras_attn?",
    grpc.StatusCode.INVALID_ARGUMENT: "Is this model a translator exported by "
    "keras_attn?",
    grpc.StatusCode.UNIMPLEMENTED: "Is this the gRPC port of a TensorFlow Serving "
    "server?",
}


def define_flags() -> None:
    """Defines the flags; called when the client is the program."""
    flags.DEFINE_string(
        "server", "127.0.0.1:8500", "Host and port of the server's gRPC API."
    )
    flags.DEFINE_string("model_name", "default", "Name of the model on the server.")
    flags.DEFINE_multi_string("text", [], "Text to translate; may be repeated.")
    flags.DEFINE_string(
        "input", None, "File of texts to translate, UTF-8, one a line; after --text."
    )
    flags.DEFINE_bool("nbest", False, "Print every hypothesis with its score.")
    flags.DEFINE_bool("json", False, "Print a JSON object a text, one a line.")
    flags.DEFINE_string(
        "attention_output",
        None,
        "Image file to draw the attention in, such as out.png; with several texts "
        "out-1.png, out-2.png, ...",
    )
    flags.DEFINE_float(
        "timeout_s", 30, "Seconds to wait for an answer.", lower_bound=0.001
    )
    flags.DEFINE_integer("batch_size", 32, "Texts sent in one request.", lower_bound=1)


def main(argv: list[str]) -> int:
    """Translates what the flags say.

    Returns:
        The exit status: 0, or 1 if something could not be translated or drawn.
    """
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {' '.join(argv[1:])}")
    try:
        texts = checked(FLAGS.text)
        if FLAGS.input is not None:
            texts += read_lines(FLAGS.input)
        if not texts:
            raise app.UsageError("Nothing to translate. Give --text or --input.")
        with TranslationClient(
            FLAGS.server, FLAGS.model_name, FLAGS.timeout_s
        ) as client:
            translate_all(
                client,
                texts,
                nbest=FLAGS.nbest,
                as_json=FLAGS.json,
                attention_output=FLAGS.attention_output,
                batch_size=FLAGS.batch_size,
            )
    except ClientError as error:
        return _failed(str(error))
    except grpc.RpcError as error:
        return _failed(describe(error, FLAGS.server))
    return 0


def checked(texts: list[str]) -> list[str]:
    """Returns `texts` if they can be sent.

    Raises:
        ClientError: a text came from bytes that are not UTF-8.
    """
    for text in texts:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ClientError(f"--text {text!r}: not valid UTF-8") from error
    return list(texts)


def read_lines(path: str) -> list[str]:
    """Returns the lines of a UTF-8 file.

    Raises:
        ClientError: the file cannot be read, or a line is not UTF-8.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ClientError(f"Cannot read --input {path}: {error.strerror}") from error
    lines = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ClientError(f"{path}, line {number}: not valid UTF-8") from error
    return lines


def translate_all(
    client: TranslationClient,
    texts: list[str],
    *,
    nbest: bool = False,
    as_json: bool = False,
    attention_output: str | None = None,
    batch_size: int = 32,
) -> None:
    """Translates texts, prints the answers and draws the best one's attention.

    Args:
        client: where to ask.
        texts: the texts.
        nbest: whether to print every hypothesis with its score.
        as_json: whether to print JSON objects in place of text.
        attention_output: image file to draw in; numbered if there are many texts.
        batch_size: texts sent in one request.

    Raises:
        grpc.RpcError: the server cannot be reached or refused the request.
        ClientError: the model has no attention to draw, or drawing failed.
    """
    with_attention = as_json or attention_output is not None
    answers = _answers(client, texts, nbest, with_attention, batch_size)
    for number, (text, hypotheses) in enumerate(zip(texts, answers, strict=True), 1):
        best = hypotheses[0]
        if best.source_truncated:
            _warn(
                f"text {number} is longer than the model reads; only its first "
                f"{len(best.source_tokens)} tokens were translated"
            )
        if as_json:
            print(json.dumps(_as_dict(text, hypotheses, nbest), ensure_ascii=False))
        elif nbest:
            print(table(text, hypotheses))
        else:
            print(best.text)
        if attention_output is not None:
            several = len(texts) > 1
            path = numbered(attention_output, number) if several else attention_output
            draw(path, best, number)


def table(text: str, hypotheses: list[Translation]) -> str:
    """Returns a text and its hypotheses as a table, the best first."""
    lines = [text, "  rank     score  translation"]
    for rank, hypothesis in enumerate(hypotheses, start=1):
        lines.append(f"  {rank:4}  {hypothesis.score:8.4f}  {hypothesis.text}")
    return "\n".join(lines)


def numbered(path: str, number: int) -> str:
    """Returns `out-3.png` for `out.png` and 3."""
    whole = Path(path)
    return str(whole.with_name(f"{whole.stem}-{number}{whole.suffix}"))


def draw(path: str, translation: Translation, number: int) -> None:
    """Draws a translation's attention; an empty translation has none to draw.

    Raises:
        ClientError: the model has no attention, or the file cannot be written.
    """
    if translation.attention is None:
        raise ClientError(
            "--attention_output: this model has no attention; nothing to draw"
        )
    if translation.attention.size == 0:
        _warn(f"the translation of text {number} is empty; {path} not drawn")
        return
    try:
        # Only drawing needs keras_attn and matplotlib.
        from keras_attn import plots

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            plots.save_heatmap(
                path,
                translation.attention,
                translation.source_tokens,
                translation.tokens,
            )
    except (ImportError, OSError, ValueError) as error:
        raise ClientError(f"Cannot draw --attention_output {path}: {error}") from error
    for warning in caught:
        _warn(f"{path}: {warning.message}")


def describe(error: grpc.RpcError, server: str) -> str:
    """Returns an RPC error as one line, with what to do about it."""
    details = " ".join(error.details().split())
    hint = _HINTS.get(error.code(), "")
    return f"{error.code().name} from {server}: {details} {hint}".rstrip()


def _answers(
    client: TranslationClient,
    texts: list[str],
    nbest: bool,
    with_attention: bool,
    batch_size: int,
) -> Iterator[list[Translation]]:
    for start in range(0, len(texts), batch_size):
        batch = texts[start : start + batch_size]
        if nbest:
            yield from client.nbest(batch, with_attention)
        else:
            yield from ([best] for best in client.translate(batch, with_attention))


def _as_dict(text: str, hypotheses: list[Translation], nbest: bool) -> dict:
    dicts = [
        {
            "text": h.text,
            "score": h.score,
            "tokens": h.tokens,
            "source_tokens": h.source_tokens,
            "source_truncated": h.source_truncated,
            "attention": None if h.attention is None else h.attention.tolist(),
        }
        for h in hypotheses
    ]
    return {"source": text, **({"hypotheses": dicts} if nbest else dicts[0])}


def _warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _failed(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 1
