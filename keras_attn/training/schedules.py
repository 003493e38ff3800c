"""Learning-rate schedules."""

import math

import keras
from keras import ops

from keras_attn.checks import check_one_of, check_positive

SCHEDULES = ("constant", "cosine", "inverse_sqrt")


@keras.saving.register_keras_serializable("keras_attn")
class WarmupInverseSqrt(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to `peak`, then decay with the inverse square root of the step.

    Args:
        peak: the largest learning rate, reached at `warmup_steps`.
        warmup_steps: number of steps of the warm-up.

    Reference: Vaswani et al. 2017, section 5.3.
    """

    def __init__(self, peak: float, warmup_steps: int):
        super().__init__()
        self.peak = peak
        self.warmup_steps = check_positive("warmup_steps", warmup_steps)

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1.0
        rise = step / self.warmup_steps
        decay = math.sqrt(self.warmup_steps) * ops.rsqrt(step)
        return self.peak * ops.minimum(rise, decay)

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}


def make_schedule(name: str, peak: float, warmup_steps: int, total_steps: int):
    """The learning rate as Keras's optimizers take it.

    Args:
        name: "constant", "cosine" (to 1 % of the peak at `total_steps`) or
            "inverse_sqrt". The last two start with a linear warm-up.
        peak: the largest learning rate.
        warmup_steps: length of the warm-up in steps.
        total_steps: length of the whole training in steps, for "cosine".

    Returns:
        A number or a `LearningRateSchedule`.
    """
    check_one_of("schedule", name, SCHEDULES)
    if name == "constant":
        return peak
    if name == "inverse_sqrt":
        return WarmupInverseSqrt(peak, max(warmup_steps, 1))
    if total_steps <= warmup_steps:
        raise ValueError(
            "Invalid value for argument `warmup_steps`. Expected fewer than the "
            f"{total_steps} steps of the whole training. Received: "
            f"warmup_steps={warmup_steps}"
        )
    return keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=peak / warmup_steps if warmup_steps else peak,
        decay_steps=total_steps - warmup_steps,
        alpha=0.01,
        warmup_target=peak if warmup_steps else None,
        warmup_steps=warmup_steps,
    )
