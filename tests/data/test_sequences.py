import numpy as np
import pytest

from keras_attn.data.sequences import Sequences


def sequences(*rows):
    ids = np.array([i for row in rows for i in row], np.int32)
    return Sequences(ids, np.array([len(row) for row in rows], np.int64))


def rows(found):
    return [
        found.ids[start : start + length].tolist()
        for start, length in zip(found.starts, found.lengths, strict=True)
    ]


ROWS = [[4, 5, 6], [], [7], [8, 9, 10, 11], []]


@pytest.mark.parametrize("row", range(6))
def test_split_and_joined(row):
    first, rest = sequences(*ROWS).split(row)
    assert (rows(first), rows(rest)) == (ROWS[:row], ROWS[row:])
    joined = Sequences.joined([Sequences.none(), first, rest])
    assert rows(joined) == ROWS
    assert len(joined) == 5
    assert joined.ids.dtype == np.int32


def test_where():
    kept = np.array([True, False, False, True, True])
    assert rows(sequences(*ROWS).where(kept)) == [ROWS[0], ROWS[3], ROWS[4]]
    assert rows(sequences(*ROWS).where(~kept)) == [ROWS[1], ROWS[2]]


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_cut(limit):
    assert rows(sequences(*ROWS).cut(limit)) == [row[:limit] for row in ROWS]


def test_rows_end_with_their_mark_where_the_limit_allows():
    chosen = np.array([3, 0, 2])
    padded = sequences(*ROWS).ended(chosen, 9, 1)
    assert padded.tolist() == [[8, 9, 10, 11, 3], [4, 5, 6, 3, 0], [7, 3, 0, 0, 0]]
    assert padded.dtype == np.int32
    padded = sequences(*ROWS).ended(chosen, 4, 3)
    assert padded.tolist() == [
        [8, 9, 10, 11, 0, 0],
        [4, 5, 6, 3, 0, 0],
        [7, 3, 0, 0, 0, 0],
    ]
