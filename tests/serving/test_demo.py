from serving.client import Translation
from serving.demo import table


def test_the_table_lines_up():
    def answer(text, score):
        return Translation(text, list(text), [], score, None, False)

    lines = table(
        [("3rd of May 1979", answer("1979-05-03", -0.1)), ("年1/2", answer("?", -12.5))]
    ).splitlines()
    assert lines == [
        "date as written  answer        score",
        "3rd of May 1979  1979-05-03   -0.100",
        "年1/2            ?           -12.500",
    ]
