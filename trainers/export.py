"""Export a model as a SavedModel version for TF Serving.

    python -m trainers.export --model_dir=runs/de-en --export_dir=served/de-en

Prints the path of the version. It appears under its number only when it was loaded as
TF Serving loads it and gave the model's own answers.
"""

import pathlib

from absl import flags

from keras_attn.export import EXPORT_DTYPES
from trainers import flags as common

FLAGS = flags.FLAGS


def define_flags() -> None:
    common.define_model_dir("Directory of the training run.")
    flags.DEFINE_string(
        "export_dir",
        None,
        "Directory of the versions, TF Serving's --model_base_path, made when missing; "
        "MODEL_DIR/export by default.",
    )
    flags.DEFINE_integer(
        "version",
        None,
        "Number of the version; one more than the largest there by default.",
        lower_bound=1,
    )
    flags.DEFINE_enum(
        "export_dtype",
        "float32",
        list(EXPORT_DTYPES),
        "Dtype of the weights in the version. bfloat16 is half the size, on the disk "
        "and in the server's memory, and computes in the dtype of the model; "
        "docs/performance.md tells what it costs.",
    )
    common.define_decoding()


def main() -> None:
    directory = pathlib.Path(FLAGS.export_dir or f"{FLAGS.model_dir}/export")
    common.check_directory("export_dir", directory)
    translator = common.load_translator()
    print(
        translator.export(
            directory,
            version=FLAGS.version,
            export_dtype=FLAGS.export_dtype,
            **common.decoding_options(),
        )
    )


if __name__ == "__main__":
    define_flags()
    common.run(main)
