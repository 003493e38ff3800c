import keras
import pytest


@pytest.fixture(autouse=True)
def _same_weights():
    keras.utils.set_random_seed(0)
