"""Attention-based recurrent sequence models for Keras 3, with TF Serving export."""

__version__ = "0.1.0"

__all__ = ["Translation", "Translator"]


def __getattr__(name):
    # The translator imports tensorflow_text, which `keras_attn.layers` must not.
    if name in __all__:
        from keras_attn import translator

        return getattr(translator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*globals(), *__all__]
