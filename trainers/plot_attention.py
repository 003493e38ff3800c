"""Translate one text and draw what the model looked at.

    python -m trainers.plot_attention --model_dir=runs/de-en \\
        --text="ein hund rennt ." --output=attention.png

Prints the translation, and writes a heat map: source tokens across the top, target
tokens down the side.
"""

import warnings

from absl import flags

from keras_attn.plots import save_heatmap
from trainers import flags as common
from trainers.texts import check_output

FLAGS = flags.FLAGS


def define_flags() -> None:
    common.define_model_dir("Directory of the training run.")
    flags.DEFINE_string("text", None, "Text to translate.", required=True)
    flags.DEFINE_string(
        "output",
        None,
        "File for the heat map; .png, .svg or .pdf says the format.",
        required=True,
    )
    flags.DEFINE_string("title", None, "Text above the heat map.")
    common.define_decoding()


def main() -> None:
    if not FLAGS.text.strip():
        raise ValueError(
            "--text: Expected some text to translate. Received: an empty text, which "
            "has no attention to draw"
        )
    check_output("output", FLAGS.output)
    translator = common.load_translator(attention_for="output")
    [translation] = translator.translate([FLAGS.text], **common.decoding_options())
    if not translation.tokens:
        raise ValueError(
            f"--text: The model's translation of {FLAGS.text!r} is empty and has no "
            "attention to draw. Nothing was written"
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        save_heatmap(
            FLAGS.output,
            translation.attention,
            translation.source_tokens,
            translation.tokens,
            title=FLAGS.title,
        )
    print(translation.text)
    for warning in caught:
        common.warn(str(warning.message))
    if translation.truncated:
        common.warn(
            "--text is longer than the model reads; only its first "
            f"{translator.max_source_length - 1} tokens were translated"
        )


if __name__ == "__main__":
    define_flags()
    common.run(main)
