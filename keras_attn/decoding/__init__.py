"""Searches: pure functions over a step function, with no model class inside."""

from keras_attn.decoding.beam import beam_search
from keras_attn.decoding.greedy import greedy_search
from keras_attn.decoding.result import SearchResult

__all__ = ["SearchResult", "beam_search", "greedy_search"]
