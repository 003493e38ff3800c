"""Training step and decoding on a GPU, on each backend of Keras, against plain PyTorch.

    python -m benchmarks.gpu --dtype_policy=mixed_bfloat16

The layers run on TensorFlow, JAX and PyTorch; the peer is the plain PyTorch model of
the same sizes. Vocabulary 8000, 16 source and 16 target tokens; decoding is 20 steps of
beam 5 at a quarter of the batch. A backend that sees no GPU is left out. `--device=cpu
--small` runs everything at a size that says nothing, to check the script itself.
"""

import sys

from absl import flags

from benchmarks import agreement, pairs

FLAGS = flags.FLAGS

BACKENDS = ("tensorflow", "jax", "torch")
OURS = "benchmarks.backend_side:BackendSide"
LENGTH = 16
SEARCH = {"beam_width": 5, "max_length": 20, "length_penalty": 0.6}
# Several processes share the GPU.
ENVIRONMENT = {
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}


def main() -> None:
    backends = [backend for backend in FLAGS.backends if is_usable(backend)]
    if not backends or not is_usable("torch"):
        print("No GPU that PyTorch and a backend of Keras can use: nothing was run.")
        sys.exit(1)
    rows = []
    for hidden in [8] if FLAGS.small else map(int, FLAGS.hidden):
        for batch_size in [4] if FLAGS.small else map(int, FLAGS.batch_sizes):
            for backend in backends:
                rows += measure(backend, hidden, batch_size)
                print(pairs.table(rows[-2:]), flush=True)
    pairs.report(rows)


def is_usable(framework: str) -> bool:
    """Whether a framework sees the device asked for."""
    if FLAGS.device == "cpu":
        return True
    with pairs.Process("benchmarks.backend_side:Devices") as devices:
        found = devices.call("gpu", framework)
    if not found:
        print(f"{framework} sees no GPU")
    return found


def measure(backend: str, hidden: int, batch_size: int) -> list[pairs.Row]:
    """The rows of training and of decoding on one backend."""
    vocabulary = 20 if FLAGS.small else 8000
    options = {
        "vocabulary_sizes": (vocabulary, vocabulary),
        "dtype_policy": FLAGS.dtype_policy,
        "embedding_dim": hidden,
        "encoder_units": hidden,
        "decoder_units": hidden,
    }
    environment = {**ENVIRONMENT, "KERAS_BACKEND": backend}
    if FLAGS.device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = "-1"
    shared = {"threads": FLAGS.threads, "environment": environment}
    device = "cpu" if FLAGS.device == "cpu" else "cuda"
    batches = agreement.random_batches(4, batch_size, LENGTH, vocabulary)
    source_ids = batches[0]["source_ids"][: max(1, batch_size // 4)]
    with (
        pairs.Process(OURS, **options, **shared) as ours,
        pairs.Process(
            agreement.PYTORCH, **options, label_smoothing=0.1, device=device, **shared
        ) as peer,
    ):
        for side in (ours, peer):
            side.call("set_batches", batches)
        peer_dtype = peer.call("choose_precision", "train", 2)
        training = pairs.compare(
            lambda: ours.call("train", FLAGS.steps)[0],
            lambda: peer.call("train", FLAGS.steps)[0],
            FLAGS.pairs,
        )
        search_dtype = peer.call("choose_precision", "search", source_ids, **SEARCH)
        searching = pairs.compare(
            lambda: ours.call("search", source_ids, repeats=3, **SEARCH),
            lambda: peer.call("search", source_ids, repeats=3, **SEARCH),
            FLAGS.pairs,
        )
    tokens = FLAGS.steps * batch_size * LENGTH
    return [
        pairs.ratio_row(
            f"{backend}, hidden {hidden}, batch {batch_size}: training",
            FLAGS.dtype_policy,
            training,
            lambda seconds: f"{tokens / seconds:,.0f} target tokens/s",
            peer_dtype,
        ),
        pairs.ratio_row(
            f"{backend}, hidden {hidden}, batch {len(source_ids)}: beam 5, 20 steps",
            FLAGS.dtype_policy,
            searching,
            lambda seconds: f"{1000 * seconds:.0f} ms",
            search_dtype,
        ),
    ]


if __name__ == "__main__":
    pairs.define_flags(pairs=3)
    flags.DEFINE_enum("device", "gpu", ["gpu", "cpu"], "Where to run.")
    flags.DEFINE_bool("small", False, "One tiny size, to check the script.")
    flags.DEFINE_list("backends", list(BACKENDS), "Backends of Keras.")
    flags.DEFINE_list("hidden", ["512", "1024"], "Widths of the model.")
    flags.DEFINE_list("batch_sizes", ["64", "256", "1024"], "Sentences of a step.")
    flags.DEFINE_integer("steps", 20, "Training steps of a round.", lower_bound=1)
    pairs.run(main)
