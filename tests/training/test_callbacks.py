import json

import keras
import numpy as np
import pytest

from keras_attn.models import AttentionSeq2Seq
from keras_attn.training import MaskedCrossEntropy, TrainingState, ValidationBLEU

REFERENCES = ["a b c d e", "f g h i j"]


def make_model():
    model = AttentionSeq2Seq(12, 12, 6, 6, 6, dropout=0.3)
    schedule = keras.optimizers.schedules.CosineDecay(1e-2, 20)
    model.compile(keras.optimizers.Adam(schedule), MaskedCrossEntropy(0.1))
    return model


def data():
    ids = np.random.default_rng(0).integers(4, 12, (32, 5))
    return {"source_ids": ids, "target_ids": ids}, ids


def fit(model, callbacks, **options):
    x, y = data()
    return model.fit(
        x, y, batch_size=16, shuffle=False, verbose=0, callbacks=callbacks, **options
    )


def translate_with(quality):
    """A translator that gets `quality[n]` of the two sentences right in epoch n."""
    epochs = iter(quality)

    def translate(sources):
        right = next(epochs)
        return [r if i < right else "x" for i, r in enumerate(REFERENCES)]

    return translate


class Stop(keras.callbacks.Callback):
    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.epoch:
            raise KeyboardInterrupt


def test_the_best_epoch_is_saved_and_logged():
    saved = []
    bleu = ValidationBLEU(
        translate_with([0, 2, 1]), ["s", "t"], REFERENCES, lambda: saved.append(1)
    )
    history = fit(make_model(), [bleu], epochs=3).history
    assert history["val_bleu"][1] == pytest.approx(100)
    assert history["val_chrf"][1] == pytest.approx(100)
    assert (bleu.best, bleu.best_epoch) == (pytest.approx(100), 1)
    # The first epoch is better than none, even with a BLEU of 0.
    assert len(saved) == 2


def test_patience_ends_the_training():
    bleu = ValidationBLEU(
        translate_with([2, 1, 1, 1]), ["s", "t"], REFERENCES, lambda: None, patience=2
    )
    history = fit(make_model(), [bleu], epochs=4).history
    assert len(history["loss"]) == 3


def test_a_resumed_run_is_the_unbroken_run(tmp_path):
    def run(directory, *callbacks):
        model = make_model()
        bleu = ValidationBLEU(
            translate_with([0, 1, 2, 2][len(quality) :]),
            ["s", "t"],
            REFERENCES,
            lambda: None,
        )
        state = TrainingState(tmp_path / directory, bleu)
        start = state.restore(model)
        fit(model, [bleu, *callbacks, state], epochs=4, initial_epoch=start)
        return model, bleu

    quality: list = []
    keras.utils.set_random_seed(1)
    unbroken, _ = run("unbroken")

    keras.utils.set_random_seed(1)
    with pytest.raises(KeyboardInterrupt):
        run("broken", Stop(2))
    quality = [0, 0]
    keras.utils.set_random_seed(99)
    resumed, bleu = run("broken")
    assert int(resumed.optimizer.iterations) == int(unbroken.optimizer.iterations) == 8
    for a, b in zip(resumed.get_weights(), unbroken.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert bleu.best_epoch == 2


def test_only_the_newest_checkpoint_stays_and_it_is_whole(tmp_path):
    state = TrainingState(tmp_path)
    fit(make_model(), [state], epochs=3)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "epoch-0003.weights.h5",
        "latest.json",
    ]
    assert json.loads((tmp_path / "latest.json").read_text())["epochs"] == 3


def test_a_kill_while_saving_leaves_the_last_checkpoint(tmp_path):
    state = TrainingState(tmp_path)
    fit(make_model(), [state], epochs=1)
    model = make_model()
    model.optimizer.build(model.trainable_variables)
    state.set_model(model)
    model.save_weights = lambda path: (
        path.write_bytes(b"half") and (_ for _ in ()).throw(OSError("disk full"))
    )
    with pytest.raises(OSError, match="disk full"):
        state.on_epoch_end(1)
    assert TrainingState(tmp_path).restore(make_model()) == 1
    assert len(list(tmp_path.iterdir())) == 2


def test_nothing_to_restore_is_epoch_zero(tmp_path):
    assert TrainingState(tmp_path / "new").restore(make_model()) == 0


@pytest.mark.parametrize("content", ["{", "{}", '{"epochs": 1, "weights": "gone.h5"}'])
def test_a_corrupt_checkpoint_is_named(tmp_path, content):
    (tmp_path / "latest.json").write_text(content)
    with pytest.raises(ValueError, match=r"latest.json cannot be resumed.*Remove"):
        TrainingState(tmp_path).restore(make_model())


def test_a_stop_by_patience_is_remembered(tmp_path):
    bleu = ValidationBLEU(
        translate_with([2, 1]), ["s", "t"], REFERENCES, lambda: None, patience=1
    )
    fit(make_model(), [bleu, TrainingState(tmp_path, bleu)], epochs=9)
    again = TrainingState(tmp_path, bleu)
    assert again.restore(make_model()) == 2
    assert again.stopped
