"""SavedModels for TF Serving."""

from keras_attn.export.operations import operations_of, unservable_operations
from keras_attn.export.saved_model import ExportError, export_translator

__all__ = [
    "ExportError",
    "export_translator",
    "operations_of",
    "unservable_operations",
]
