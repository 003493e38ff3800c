import pytest

pytest.importorskip(
    "apache_beam", reason="apache-beam is not installed (the extra 'beam')"
)

from trainers import beam_pipeline, beam_shards


@pytest.mark.parametrize("shard_lines", [1, 2, 3, 7, 8, 9])
@pytest.mark.parametrize("chunk", [1, 5, 1000])
@pytest.mark.parametrize("end", ["\n", ""])
def test_shards_are_the_lines_of_the_file(
    shard_lines, chunk, end, monkeypatch, tmp_path
):
    monkeypatch.setattr(beam_shards, "_CHUNK", chunk)
    lines = ["a", "", "bcd", "é", "", "", "efghi", "j"]
    path = tmp_path / "in.txt"
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    shards, [file] = beam_shards.shards_of([str(path)], shard_lines)
    assert file["lines"] == len(lines)
    read = [beam_pipeline.read_shard(shard) for shard in shards]
    assert [len(part) for part in read] == [shard.lines for shard in shards]
    assert [line for part in read for line in part] == lines
    assert [shard.first_line for shard in shards] == list(
        range(1, len(lines) + 1, shard_lines)
    )


def test_names_of_parts_sort_as_their_shards_however_many():
    few, many = (
        beam_shards.Shard(7, count, "", 0, 1, 1, 7).name for count in (9, 123_456)
    )
    assert few == "00007-of-00009"
    assert many == "000007-of-123456"


def test_files_are_one_after_the_other(tmp_path):
    for name, content in (("b", "3\n4\n5\n"), ("a", "0\n1\n2"), ("c", "")):
        (tmp_path / name).write_text(content)
    paths = beam_shards.input_files(f"{tmp_path}/*")
    assert paths == [f"{tmp_path}/{name}" for name in "abc"]
    shards, files = beam_shards.shards_of(paths, 2)
    assert [(file["name"], file["lines"]) for file in files] == [
        ("a", 3),
        ("b", 3),
        ("c", 0),
    ]
    assert [(s.path[-1], s.first_line, s.first_id, s.lines) for s in shards] == [
        ("a", 1, 0, 2),
        ("a", 3, 2, 1),
        ("b", 1, 3, 2),
        ("b", 3, 5, 1),
        ("c", 1, 6, 0),
    ]
    assert {(shard.index, shard.count) for shard in shards} == {
        (i, 5) for i in range(5)
    }


def test_a_name_with_the_signs_of_a_pattern_is_a_name(tmp_path):
    path = tmp_path / "in[1].txt"
    path.write_text("a\n")
    assert beam_shards.input_files(str(path)) == [str(path)]
