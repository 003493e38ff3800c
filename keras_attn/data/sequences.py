"""Many sequences of ids in two arrays."""

import dataclasses
from collections.abc import Sequence
from typing import Self

import numpy as np

from keras_attn.text.base import Tokenizer


@dataclasses.dataclass(frozen=True)
class Sequences:
    """Sequences of ids, one behind the other.

    Attributes:
        ids: int32 [tokens].
        lengths: int64 [N], the number of ids of each sequence.
        starts: int64 [N], the place in `ids` of its first.
    """

    ids: np.ndarray
    lengths: np.ndarray
    starts: np.ndarray = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        starts = np.cumsum(self.lengths) - self.lengths
        object.__setattr__(self, "starts", starts)

    @classmethod
    def none(cls) -> Self:
        return cls(np.zeros(0, np.int32), np.zeros(0, np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        return cls(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.lengths for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def split(self, row: int) -> tuple[Self, Self]:
        """The first `row` sequences, and the others."""
        place = int(self.lengths[:row].sum())
        kind = type(self)
        return (
            kind(self.ids[:place], self.lengths[:row]),
            kind(self.ids[place:], self.lengths[row:]),
        )

    def where(self, kept: np.ndarray) -> Self:
        """The sequences for which a mask [N] is true."""
        return type(self)(self.ids[np.repeat(kept, self.lengths)], self.lengths[kept])

    def cut(self, limit: int) -> Self:
        """Leaves out what is behind the first `limit` ids of a sequence."""
        places = np.arange(len(self.ids)) - np.repeat(self.starts, self.lengths)
        return type(self)(self.ids[places < limit], np.minimum(self.lengths, limit))

    def ended(self, rows: np.ndarray, limit: int, multiple: int) -> np.ndarray:
        """Pads some of the sequences, with `</s>` behind those that `limit` allows.

        Args:
            rows: Which ones, [B].
            limit: The longest sequence, `</s>` included.
            multiple: The width is rounded up to one of this.

        Returns:
            int32 [B, T].
        """
        lengths = self.lengths[rows]
        width = -(-min(lengths.max() + 1, limit) // multiple) * multiple
        places = np.arange(width)
        real = places < lengths[:, None]
        padded = np.full([len(rows), width], Tokenizer.PAD_ID, np.int32)
        padded[real] = self.ids[(self.starts[rows, None] + places)[real]]
        (fitting,) = np.nonzero(lengths < limit)
        padded[fitting, lengths[fitting]] = Tokenizer.EOS_ID
        return padded
