import pytest

from serving.versions import find_versions


def test_only_numeric_directories_are_versions(tmp_path):
    for name in ["3", "00000123", "1.5", "-1", "+2", ".tmp-4", "v5", "², ٣", "٣"]:
        (tmp_path / name).mkdir()
    (tmp_path / "9").write_text("a file")
    assert find_versions(tmp_path) == {3: tmp_path / "3", 123: tmp_path / "00000123"}


def test_version_is_an_int64(tmp_path):
    largest = 2**63 - 1
    for name in [str(largest), str(largest + 1), "9" * 200]:
        (tmp_path / name).mkdir()
    assert list(find_versions(tmp_path)) == [largest]


def test_later_name_of_a_version_counts(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "01").mkdir()
    assert find_versions(tmp_path) == {1: tmp_path / "1"}


def test_missing_base_path(tmp_path):
    with pytest.raises(FileNotFoundError):
        find_versions(tmp_path / "absent")
