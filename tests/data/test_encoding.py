import itertools
import threading
import time

import pytest

from keras_attn.data import encoding
from keras_attn.data.encoding import encode_all, encoded_chunks, encoder
from keras_attn.text import WordTokenizer

WORDS = WordTokenizer(list("abc"))


def rows(found):
    return [
        found.ids[start : start + length].tolist()
        for start, length in zip(found.starts, found.lengths, strict=True)
    ]


def test_pairs_with_an_empty_side_or_over_a_limit_are_dropped():
    encode = encoder(WORDS, WORDS, 3, 4)
    pairs = [("a b", "c"), ("a b c", "c"), ("", "c"), ("a", " "), ("a", "a b c d")]
    source, target, dropped = encode(pairs)
    assert (rows(source), rows(target)) == ([[4, 5]], [[6]])
    assert dropped.tolist() == [2, 2]


def test_or_cut():
    encode = encoder(WORDS, WORDS, 3, 4, cut=True)
    source, target, dropped = encode([("a b c", "a a a a a"), ("a", ""), ("a", "b")])
    assert (rows(source), rows(target)) == ([[4, 5], [4]], [[4, 4, 4, 4], [5]])
    assert dropped.tolist() == [1, 0]


def test_chunks_come_in_order_from_several_threads(monkeypatch):
    monkeypatch.setattr(encoding, "_CHUNK", 3)
    monkeypatch.setattr(encoding, "_THREADS", 4)
    pairs = [(str(i), "") for i in range(50)]
    used = set()

    def encode(chunk):
        used.add(threading.get_ident())
        time.sleep(0.02 if chunk[0] == pairs[0] else 0.001)
        return chunk

    found = list(encoded_chunks(pairs, encode))
    assert list(itertools.chain(*found)) == pairs
    assert {len(chunk) for chunk in found} == {3, 2}
    assert len(used) > 1


def test_no_more_is_read_ahead_than_the_threads_need(monkeypatch):
    monkeypatch.setattr(encoding, "_CHUNK", 2)
    monkeypatch.setattr(encoding, "_THREADS", 3)
    read = itertools.count()
    chunks = encoded_chunks(((str(i), "") for i in read), lambda chunk: chunk)
    assert [next(chunks)[0][0] for _ in range(5)] == ["0", "2", "4", "6", "8"]
    assert next(read) == 2 * (5 + 3)
    chunks.close()


def test_an_error_of_a_thread_is_raised():
    def encode(chunk):
        raise RuntimeError("of the tokenizer")

    with pytest.raises(RuntimeError, match="of the tokenizer"):
        encode_all([("a", "b")], encode)


def test_all_at_once(monkeypatch):
    monkeypatch.setattr(encoding, "_CHUNK", 2)
    pairs = [("a", "b"), ("", "b"), ("a b", "c"), ("a b c", "c"), ("c", "a b")]
    source, target, dropped = encode_all(pairs, encoder(WORDS, WORDS, 3, 4))
    assert (rows(source), rows(target)) == ([[4], [4, 5], [6]], [[5], [6], [4, 5]])
    assert dropped.tolist() == [1, 1]
