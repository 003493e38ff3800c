import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip(
    "apache_beam", reason="apache-beam is not installed (the extra 'beam')"
)

from keras_attn.data.lines import Lines
from trainers import beam_shards
from trainers.beam_pipeline import Failure, TranslationModelHandler, read_shard

NO_ROOM = "ResourceExhaustedError: no room for it"


class Backwards:
    """Answers as a version does that spells backwards; with ! in a text it fails."""

    def __init__(self, broken=False):
        self.signatures = {"serving_default": self}
        self.broken, self.batches = broken, []

    def __call__(self, text):
        texts = [value.decode() for value in text.numpy()]
        self.batches.append(texts)
        if self.broken or any("!" in text for text in texts):
            raise tf.errors.ResourceExhaustedError(None, None, "no room\n for it")
        answers = [text[::-1] for text in texts]
        tokens = tf.strings.unicode_split(answers, "UTF-8")
        source_tokens = tf.strings.unicode_split(texts, "UTF-8")
        lengths = tf.cast(tokens.row_lengths(), tf.int32)
        longest = int(tf.reduce_max(lengths))
        return {
            "text": tf.constant(answers),
            "tokens": tokens.to_tensor(),
            "lengths": lengths,
            "score": -tf.cast(lengths, tf.float32),
            "attention": tf.eye(longest, batch_shape=[len(texts)]),
            "source_tokens": source_tokens.to_tensor(),
            "source_lengths": lengths,
            "source_truncated": lengths > 5,
        }


def translate(lines, model, **options):
    """The results of one list of lines."""
    [results] = TranslationModelHandler("", **options).run_inference([lines], model)
    return results


def test_texts_of_like_length_are_decoded_together_and_come_back_in_order():
    model = Backwards()
    lines = ["a" * (i % 10) + "b" * (i > 9) for i in range(20)]
    results = translate(lines, model, batch_size=4)
    assert [len(batch) for batch in model.batches] == [4] * 5
    lengths = [len(text) for batch in model.batches for text in batch]
    assert lengths == sorted(lengths)
    assert [result.text for result in results] == [line[::-1] for line in lines]


def test_a_translation_has_all_that_belongs_to_it():
    [first, _] = translate(["ab", "abcdef"], Backwards(), attention=True)
    assert (first.text, first.tokens, first.source_tokens) == (
        "ba",
        ["b", "a"],
        ["a", "b"],
    )
    assert (first.score, first.truncated) == (-2.0, False)
    np.testing.assert_array_equal(first.attention, np.eye(2))
    [first, second] = translate(["ab", "abcdef"], Backwards())
    assert first.attention is None
    assert second.truncated


def test_a_text_on_which_the_model_fails_is_found_in_its_batch():
    lines = ["abc", "h", "no!", Failure("x", "y"), "", "gh", "!", "hgfed"]
    model = Backwards()
    results = translate(lines, model)
    assert results[2] == Failure("no!", NO_ROOM)
    assert results[3] == Failure("x", "y")
    assert results[6] == Failure("!", NO_ROOM)
    texts = [results[i].text for i in (0, 1, 4, 5, 7)]
    assert texts == ["cba", "h", "", "hg", "defgh"]
    assert [len(batch) for batch in model.batches[:3]] == [7, 3, 1]


def test_a_model_that_fails_on_every_text_ends_the_run():
    with pytest.raises(tf.errors.ResourceExhaustedError):
        translate(["abc", "gh"], Backwards(broken=True))


def test_no_line_is_no_work():
    model = Backwards()
    assert translate([], model) == []
    assert translate([Failure("x", "y")], model) == [Failure("x", "y")]
    assert model.batches == []


def shards_of(path, content, shard_lines=10):
    path.write_bytes(content)
    return beam_shards.shards_of([str(path)], shard_lines)[0]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"\xef\xbb\xbfa\r\nb\rc\r\n", ["a", "bc"]),
        (b"a\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"a\x00\x0b\xc2\x85\xe2\x80\xa8b\n", ["a\x00\x0b\x85\u2028b"]),
        (b"x" * 1_000_000 + b"\r\n", ["x" * 1_000_000]),
    ],
)
def test_lines_are_read_as_they_are_for_training(content, lines, tmp_path):
    [shard] = shards_of(tmp_path / "in.txt", content)
    assert read_shard(shard) == lines
    assert list(Lines(str(tmp_path / "in.txt"))) == lines


@pytest.mark.parametrize("length", [1_000_001, 1_000_005, 1_000_006, 3_000_000])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_that_is_too_long_is_skipped(length, end, tmp_path):
    content = b"ab\n" + b"x" * length + b"\ncd\n" + b"y" * length + end
    shards = shards_of(tmp_path / "in.txt", content, shard_lines=3)
    reason = "Line too long. Expected at most 1000000 bytes"
    assert [read_shard(shard) for shard in shards] == [
        ["ab", Failure("x" * 1000, reason), "cd"],
        [Failure("y" * 1000, reason)],
    ]


def test_a_file_that_shrinks_meanwhile_is_told(tmp_path):
    path = tmp_path / "in.txt"
    [shard] = shards_of(path, b"a\nb\nc\n")
    path.write_bytes(b"a\n")
    with pytest.raises(ValueError, match="in.txt was cut while it was translated"):
        read_shard(shard)
