"""The last part of `make demo`: serve the exported model and ask it over gRPC.

python -m serving.demo --model_base_path=demo/export --heat_map=demo/attention.png
"""

import unicodedata

import tensorflow as tf
from absl import app, flags

from serving.client import Translation, TranslationClient
from serving.model_server import ModelServer

FLAGS = flags.FLAGS

# Days of years and forms that occur in the data; whether each day was seen is chance.
QUESTIONS = [
    "saturday october 13 1984",
    "3rd of May 1979",
    "Dienstag, 1. Februar 2011",
    "14 juillet 1989",
    "el 23 de abril de 2016",
    "9 ноября 1989 г.",
    "1997年7月1日星期二",
    "25/12/99",
]


def define_flags() -> None:
    flags.DEFINE_string(
        "model_base_path", None, "Where the model was exported to.", required=True
    )
    flags.DEFINE_string(
        "heat_map", None, "Image file for the attention of one answer.", required=True
    )


def table(answers: list[tuple[str, Translation]]) -> str:
    """Questions, answers and scores in columns."""
    width = max(columns_of(question) for question, _ in answers)
    lines = [f"{'date as written':{width}}  {'answer':10}  {'score':>7}"]
    for question, answer in answers:
        padding = " " * (width - columns_of(question))
        lines.append(f"{question}{padding}  {answer.text:10}  {answer.score:7.3f}")
    return "\n".join(lines)


def columns_of(text: str) -> int:
    """The columns that a text takes on a terminal: two for a Chinese character."""
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def main(argv: list[str]) -> None:
    del argv
    # The loader that TF Serving uses is "deprecated" in Python, on every call.
    tf.get_logger().setLevel("ERROR")
    from keras_attn.plots import save_heatmap

    server = ModelServer.start("dates", FLAGS.model_base_path, port=0)
    try:
        print(f"\nServing {FLAGS.model_base_path} at 127.0.0.1:{server.port} (gRPC)\n")
        with TranslationClient(f"127.0.0.1:{server.port}", "dates") as client:
            translations = client.translate(QUESTIONS)
    finally:
        server.stop()
    print(table(list(zip(QUESTIONS, translations, strict=True))))
    shown = translations[0]
    path = save_heatmap(
        FLAGS.heat_map,
        shown.attention,
        shown.source_tokens,
        shown.tokens,
        title=f"{QUESTIONS[0]}  →  {shown.text}",
    )
    print(f"\nWhat the model looked at while it wrote {shown.text}: {path}")


if __name__ == "__main__":
    define_flags()
    app.run(main)
