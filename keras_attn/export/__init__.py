"""SavedModels for TF Serving."""

from keras_attn.export.agreement import ExportError
from keras_attn.export.operations import operations_of, unservable_operations
from keras_attn.export.saved_model import EXPORT_DTYPES, export_translator

__all__ = [
    "EXPORT_DTYPES",
    "ExportError",
    "export_translator",
    "operations_of",
    "unservable_operations",
]
