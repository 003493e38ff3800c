import keras
import pytest

from keras_attn.training import WarmupInverseSqrt, make_schedule


def test_inverse_sqrt_by_hand():
    schedule = WarmupInverseSqrt(0.01, 4)
    assert float(schedule(0)) == pytest.approx(0.0025)
    assert float(schedule(3)) == pytest.approx(0.01)
    assert float(schedule(15)) == pytest.approx(0.005)


def test_cosine_rises_to_the_peak_and_falls_to_a_hundredth():
    schedule = make_schedule("cosine", 0.01, 10, 110)
    assert float(schedule(0)) == pytest.approx(0.001)
    assert float(schedule(10)) == pytest.approx(0.01)
    assert float(schedule(60)) == pytest.approx(0.01 * (0.01 + 0.99 / 2))
    assert float(schedule(110)) == pytest.approx(0.0001)


def test_constant_is_a_number():
    assert make_schedule("constant", 0.01, 10, 100) == 0.01


def test_config_round_trip():
    schedule = keras.optimizers.schedules.deserialize(
        keras.optimizers.schedules.serialize(WarmupInverseSqrt(0.01, 4))
    )
    assert float(schedule(7)) == float(WarmupInverseSqrt(0.01, 4)(7))


def test_a_warmup_longer_than_the_training_is_refused():
    with pytest.raises(ValueError, match="`warmup_steps`.*100 steps.*warmup_steps=100"):
        make_schedule("cosine", 0.01, 100, 100)


def test_an_unknown_schedule_is_named():
    with pytest.raises(ValueError, match="`schedule`.*'cosine'.*schedule='linear'"):
        make_schedule("linear", 0.01, 10, 100)
