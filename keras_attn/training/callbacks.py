"""Callbacks of a training run: dev BLEU by real decoding, and resuming."""

import json
import os
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_attn import files
from keras_attn.checks import check_positive
from keras_attn.evaluation import corpus_scores


class ValidationBLEU(keras.callbacks.Callback):
    """Translates the validation set after every epoch, keeps the best model, stops.

    Adds `val_bleu` and `val_chrf` to the logs of the epoch, where later callbacks
    (TensorBoard) find them. When the BLEU is the best so far it calls `save_best`;
    after `patience` epochs without a better one it ends the training.

    Args:
        translate: a list of source texts to a list of translations.
        sources: the source texts.
        references: one reference for each.
        save_best: called with no argument when the model is the best so far.
        patience: epochs without a better BLEU after which to stop; None = never.
        tokenize: sacreBLEU's tokenizer, "none" for text that is already tokenized.
    """

    def __init__(
        self,
        translate: Callable[[Sequence[str]], Sequence[str]],
        sources: Sequence[str],
        references: Sequence[str],
        save_best: Callable[[], None],
        patience: int | None = None,
        tokenize: str = "13a",
    ):
        super().__init__()
        self.translate = translate
        self.sources = sources
        self.references = references
        self.save_best = save_best
        self.patience = (
            None if patience is None else check_positive("patience", patience)
        )
        self.tokenize = tokenize
        self.best = -1.0
        self.best_epoch = -1
        self.seconds = 0.0

    def on_epoch_end(self, epoch, logs=None):
        start = time.monotonic()
        hypotheses = self.translate(self.sources)
        scores = corpus_scores(hypotheses, self.references, tokenize=self.tokenize)
        self.seconds += time.monotonic() - start
        if logs is not None:
            logs["val_bleu"] = scores.bleu
            logs["val_chrf"] = scores.chrf
        if scores.bleu > self.best:
            self.best, self.best_epoch = scores.bleu, epoch
            self.save_best()
        elif self.patience and epoch - self.best_epoch >= self.patience:
            self.model.stop_training = True

    def get_state(self) -> dict[str, Any]:
        """What `set_state` needs to go on, as JSON values."""
        return {"best": self.best, "best_epoch": self.best_epoch}

    def set_state(self, state: dict[str, Any]) -> None:
        self.best, self.best_epoch = state["best"], state["best_epoch"]


class TrainingState(keras.callbacks.Callback):
    """Saves after every epoch all that an interrupted run needs to go on.

    Weights, optimizer, the states of the random generators and of `bleu` are written to
    a directory; the newest whole checkpoint is the one that counts, so a process killed
    at any moment loses the epoch under way and nothing else. Put it last in the list
    of callbacks.

    Args:
        directory: where to write, made when missing.
        bleu: the run's `ValidationBLEU`, if it has one.
    """

    def __init__(
        self, directory: str | os.PathLike, bleu: ValidationBLEU | None = None
    ):
        super().__init__()
        self.directory = pathlib.Path(directory)
        self.bleu = bleu
        # Whether the run was ended before its last epoch, by its patience.
        self.stopped = False

    def restore(self, model: keras.Model) -> int:
        """Load the newest checkpoint into a compiled model.

        Returns:
            The number of epochs done, 0 where there is no checkpoint; `fit` takes it as
            `initial_epoch`.

        Raises:
            ValueError: the checkpoint cannot be read or does not fit the model.
        """
        path = self.directory / "latest.json"
        if not path.exists():
            return 0
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            model.optimizer.build(model.trainable_variables)
            model.load_weights(self.directory / state["weights"])
            seeds = _seed_states(model)
            for variable, value in zip(seeds, state["seeds"], strict=True):
                variable.assign(np.array(value, dtype="uint32"))
            if self.bleu is not None:
                self.bleu.set_state(state["bleu"])
            epochs, self.stopped = int(state["epochs"]), bool(state["stopped"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"The checkpoint {path} cannot be resumed: {error}. Remove "
                f"{self.directory} to start again."
            ) from error
        for unfinished in self.directory.glob(".tmp-*"):
            unfinished.unlink()
        return epochs

    def on_epoch_end(self, epoch, logs=None):
        self.directory.mkdir(parents=True, exist_ok=True)
        weights = f"epoch-{epoch + 1:04d}.weights.h5"
        files.write_atomically(self.directory / weights, self.model.save_weights)
        state = {
            "epochs": epoch + 1,
            "weights": weights,
            "seeds": [np.asarray(v).tolist() for v in _seed_states(self.model)],
            "bleu": None if self.bleu is None else self.bleu.get_state(),
            "stopped": bool(self.model.stop_training),
        }
        files.write_text_atomically(
            self.directory / "latest.json", json.dumps(state, indent=1) + "\n"
        )
        for old in self.directory.glob("epoch-*.weights.h5"):
            if old.name != weights:
                old.unlink()


def _seed_states(model):
    """The states of the dropout generators: Keras saves them with no weights file."""
    return [v for v in model.variables if v.name == "seed_generator_state"]
