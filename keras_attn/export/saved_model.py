"""Writing a translator as a SavedModel version that TF Serving can load."""

import contextlib
import os
import pathlib
import shutil
import tempfile

import keras
import numpy as np
import tensorflow as tf

from keras_attn.checks import check_one_of, check_positive
from keras_attn.export.agreement import ExportError, check_agreement, check_same
from keras_attn.export.operations import unservable_operations
from keras_attn.export.storage import StoredWeights

EXPORT_DTYPES = ("float32", "bfloat16")


def export_translator(
    translator,
    directory: str | os.PathLike,
    beam_width: int = 5,
    max_length: int = 100,
    length_penalty: float = 0.6,
    version: int | None = None,
    export_dtype: str | None = None,
) -> pathlib.Path:
    """Write `directory/<version>`, checked before it gets its number.

    Two signatures take `text`, string `[batch]`:

    - `serving_default`, the best translation: `text` `[B]`, `tokens` `[B, T]`,
      `lengths` int32 `[B]`, `score` float32 `[B]`, `attention` float32 `[B, T, S]`;
    - `nbest`, all hypotheses of the beam: the same with an axis K = `beam_width` after
      the batch; a slot without a hypothesis has score -inf and length 0.

    Both also return `source_tokens` `[B, S]`, `source_lengths` int32 `[B]` and
    `source_truncated` bool `[B]`; a model without attention returns no `attention`.

    The version is written beside its place under a name that no server takes for a
    version. It is then loaded through a TF1 Session, as TF Serving does, has to
    give the translator's own answers, and only then is renamed to its number.

    With `export_dtype="bfloat16"` the version holds its weights in two bytes each. It
    computes in the model's own dtype all the same: a request casts the weights once,
    before the search. Its answers must be those of the same weights in the translator,
    and agree with those of the translator's own as
    `keras_attn.export.agreement.check_agreement` says.

    Args:
        translator: a `keras_attn.Translator`.
        directory: the model's base path, made when missing.
        beam_width: hypotheses kept; 1 is greedy search.
        max_length: the most tokens of a translation, </s> among them.
        length_penalty: see `keras_attn.decoding.beam_search`.
        version: the number; one more than the largest there by default.
        export_dtype: "float32" or "bfloat16", the dtype of the weights in the version;
            that of the model's weights by default.

    Returns:
        The path of the version.

    Raises:
        FileExistsError: the version exists.
        OSError: the directory cannot be written.
        ExportError: the written model failed a check.
        ValueError: an argument has an invalid value.
    """
    if export_dtype is not None:
        check_one_of("export_dtype", export_dtype, EXPORT_DTYPES)
    base = pathlib.Path(directory)
    base.mkdir(parents=True, exist_ok=True)
    version = next_version(base) if version is None else version
    target = base / str(check_positive("version", version))
    if target.exists():
        raise FileExistsError(
            f"Version {version} exists already in {base}. Choose another number, or "
            "none for the next one."
        )
    partial = pathlib.Path(tempfile.mkdtemp(dir=base, prefix=f".tmp-{version}-"))
    try:
        options = (beam_width, max_length, length_penalty)
        stored = _stored_weights(translator.model, export_dtype)
        signatures = _signatures(translator, options, stored)
        probes = probe_texts(translator)
        # Traced by being called; the archive takes the traces as they are.
        expected = {name: f(tf.constant(probes)) for name, f in signatures.items()}
        if stored is not None:
            own = _signatures(translator, options)["nbest"](tf.constant(probes))
            check_agreement(own, expected["nbest"], stored.dtype)
        _write(translator, partial, signatures)
        _check_operations(partial)
        _check_answers(partial, probes, expected)
        partial.chmod(0o755)
        os.rename(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def next_version(base: pathlib.Path) -> int:
    """One more than the largest version number in `base`, 1 for the first."""
    numbers = [int(p.name) for p in base.iterdir() if p.name.isdecimal()]
    return max(numbers, default=0) + 1


def _stored_weights(model, dtype):
    """The weights in `dtype`, or None where the model's own are the ones to write."""
    if dtype is None or all(weight.dtype == dtype for weight in model.weights):
        return None
    return StoredWeights(model, dtype)


def _signatures(translator, options, stored=None):
    weights = contextlib.nullcontext if stored is None else stored.scope
    text = tf.TensorSpec([None], tf.string, name="text")

    @tf.function(input_signature=[text], autograph=False)
    def best(text):
        with weights():
            answer = translator.decode(text, *options, n_best=1)
        whole = ("source_tokens", "source_lengths", "source_truncated")
        return {k: v if k in whole else v[:, 0] for k, v in answer.items()}

    @tf.function(input_signature=[text], autograph=False)
    def n_best(text):
        with weights():
            return translator.decode(text, *options)

    return {"serving_default": best, "nbest": n_best}


def _write(translator, path, signatures):
    archive = keras.export.ExportArchive()
    # The variables that the signatures use are written by themselves, once. Those of a
    # tracked model would be written a second time, as would weights that a stored copy
    # stands in for.
    archive.track(translator.source_tokenizer)
    archive.track(translator.target_tokenizer)
    for name, function in signatures.items():
        archive.add_endpoint(name, function)
    archive.write_out(str(path), verbose=False)


def _check_operations(path):
    unservable = unservable_operations(path)
    if unservable:
        raise ExportError(
            "The exported graph holds operations that stock TF Serving cannot run: "
            f"{', '.join(unservable)}"
        )


def _check_answers(path, probes, expected):
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        for name, outputs in expected.items():
            signature = loaded.signature_def[name]
            answer = session.run(
                {key: info.name for key, info in signature.outputs.items()},
                {signature.inputs["text"].name: probes},
            )
            check_same(name, outputs, answer)


def probe_texts(translator) -> list[str]:
    """Texts that the exported model is tried on: some words, blanks, one too long."""
    tokenizer = translator.source_tokenizer
    ids = np.random.default_rng(0).integers(4, tokenizer.vocabulary_size, size=12)
    text = tokenizer.detokenize(ids).numpy().decode("utf-8")
    short = tokenizer.detokenize(ids[:3]).numpy().decode("utf-8")
    long = f"{text} " * (translator.max_source_length // len(ids) + 1)
    return [text, short, "", " ", long, "\U0001f600"]
