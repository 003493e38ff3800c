"""Losses, metrics, schedules and callbacks for `model.fit`."""

from keras_attn.training.callbacks import TrainingState, ValidationBLEU
from keras_attn.training.losses import MaskedCrossEntropy
from keras_attn.training.metrics import Perplexity, TokenAccuracy
from keras_attn.training.optimizers import FusedAdam
from keras_attn.training.schedules import WarmupInverseSqrt, make_schedule

__all__ = [
    "FusedAdam",
    "MaskedCrossEntropy",
    "Perplexity",
    "TokenAccuracy",
    "TrainingState",
    "ValidationBLEU",
    "WarmupInverseSqrt",
    "make_schedule",
]
