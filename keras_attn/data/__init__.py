"""Parallel text: files checked and read, and batches for training."""

from keras_attn.data.corpus import CorpusError, ParallelCorpus, read_lines
from keras_attn.data.epochs import EpochSeed, PipelineSummary, TrainingDataset
from keras_attn.data.pipeline import evaluation_dataset, training_dataset

__all__ = [
    "CorpusError",
    "EpochSeed",
    "ParallelCorpus",
    "PipelineSummary",
    "TrainingDataset",
    "evaluation_dataset",
    "read_lines",
    "training_dataset",
]
