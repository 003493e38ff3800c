"""Scores of hypotheses against references."""

from keras_attn.evaluation.scores import Scores, corpus_scores, exact_match

__all__ = ["Scores", "corpus_scores", "exact_match"]
