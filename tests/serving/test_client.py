"""The client as a library, and what its command line prints and draws."""

import json
import os
import subprocess
import sys
import types
import warnings

import grpc
import numpy as np
import pytest

from serving import client_main
from serving.client import ClientError, Translation, TranslationClient


@pytest.fixture
def client(translator):
    target = f"127.0.0.1:{translator.port}"
    with TranslationClient(target, "translator", timeout=30) as connected:
        yield connected


@pytest.fixture
def drawn(monkeypatch):
    """Stands in for keras_attn.plots; holds the arguments of each drawing."""
    calls = []
    plots = types.ModuleType("keras_attn.plots")
    plots.save_heatmap = lambda *args: calls.append(args)
    package = types.ModuleType("keras_attn")
    package.plots = plots
    monkeypatch.setitem(sys.modules, "keras_attn", package)
    monkeypatch.setitem(sys.modules, "keras_attn.plots", plots)
    return calls


def run(client, texts, capsys, **options):
    client_main.translate_all(client, texts, **options)
    return capsys.readouterr()


def test_translate(client):
    long, empty, one = client.translate(["ein kleiner Hund", "", "Übung"])
    assert long.text == "Hund kleiner ein"
    assert long.tokens == ["Hund", "kleiner", "ein"]
    assert long.source_tokens == ["ein", "kleiner", "Hund", "</s>"]
    assert long.score == -3.0
    assert not long.source_truncated
    np.testing.assert_array_equal(long.attention, np.eye(3, 4)[[2, 1, 0]])
    assert (empty.text, empty.tokens, empty.attention.shape) == ("", [], (0, 1))
    assert (one.text, one.attention.tolist()) == ("Übung", [[1.0, 0.0]])


def test_nbest(client):
    [first, second], [_, other] = client.nbest(["a b", "c d e f g"])
    assert (first.text, first.score) == ("b a", -2.0)
    assert (second.text, second.score) == ("a b", -4.0)
    np.testing.assert_array_equal(first.attention, [[0, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(second.attention, [[1, 0, 0], [0, 1, 0]])
    assert other.source_tokens == ["c", "d", "e", "f", "</s>"]
    assert other.source_truncated


def test_nbest_leaves_out_hypotheses_that_were_not_found(client):
    [only], pair = client.nbest(["", "a"])
    assert (only.text, only.score, only.tokens) == ("", 0.0, [])
    assert [hypothesis.score for hypothesis in pair] == [-1.0, -2.0]


def test_attention_is_left_out_unless_wanted(client):
    assert client.translate(["a b"], attention=False)[0].attention is None
    assert client.nbest(["a b"], attention=False)[0][1].attention is None


def test_no_texts(client):
    assert client.translate([]) == []
    assert client.nbest([]) == []


def test_answer_of_another_kind_of_model(monkeypatch, client):
    monkeypatch.setattr("serving.client._OUTPUTS", ["text", "colour"])
    with pytest.raises(ClientError) as error:
        client.translate(["a"])
    assert str(error.value) == (
        "Model translator is no translator exported by keras_attn. Expected the "
        "outputs text, colour. Received: attention, lengths, score, source_lengths, "
        "source_tokens, source_truncated, text, tokens"
    )


def test_prints_one_line_a_text_in_batches(client, capsys):
    texts = [f"{i} x" for i in range(7)]
    printed = run(client, texts, capsys, batch_size=3)
    assert printed.out.splitlines() == [f"x {i}" for i in range(7)]
    assert printed.err == ""


def test_prints_a_table_of_hypotheses(client, capsys):
    printed = run(client, ["guten Tag"], capsys, nbest=True)
    assert printed.out.splitlines() == [
        "guten Tag",
        "  rank     score  translation",
        "     1   -2.0000  Tag guten",
        "     2   -4.0000  guten Tag",
    ]


def test_prints_json(client, capsys):
    printed = run(client, ["a ü"], capsys, as_json=True)
    assert json.loads(printed.out) == {
        "source": "a ü",
        "text": "ü a",
        "score": -2.0,
        "tokens": ["ü", "a"],
        "source_tokens": ["a", "ü", "</s>"],
        "source_truncated": False,
        "attention": [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
    }
    printed = run(client, ["a", "b"], capsys, as_json=True, nbest=True)
    lines = [json.loads(line) for line in printed.out.splitlines()]
    assert [line["source"] for line in lines] == ["a", "b"]
    assert [h["score"] for h in lines[0]["hypotheses"]] == [-1.0, -2.0]


def test_truncated_source_is_a_warning(client, capsys):
    printed = run(client, ["a", "a b c d e"], capsys)
    assert printed.out.splitlines() == ["a", "d c b a"]
    assert printed.err == (
        "warning: text 2 is longer than the model reads; only its first 5 tokens were "
        "translated\n"
    )


def test_draws_the_best_hypothesis(client, capsys, drawn):
    run(client, ["a b"], capsys, nbest=True, attention_output="out.png")
    [(path, attention, source_tokens, target_tokens)] = drawn
    assert path == "out.png"
    np.testing.assert_array_equal(attention, [[0, 1, 0], [1, 0, 0]])
    assert (source_tokens, target_tokens) == (["a", "b", "</s>"], ["b", "a"])


def test_numbers_the_drawings_of_several_texts(client, capsys, drawn):
    printed = run(client, ["a", "", "c"], capsys, attention_output="dir/out.1.png")
    assert [call[0] for call in drawn] == ["dir/out.1-1.png", "dir/out.1-3.png"]
    assert printed.err == (
        "warning: the translation of text 2 is empty; dir/out.1-2.png not drawn\n"
    )


def test_draws_a_real_heat_map(client, capsys, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib not installed")
    path = tmp_path / "out.png"
    run(client, ["ein kleiner Hund"], capsys, attention_output=str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


def test_warnings_of_a_drawing_are_lines(client, capsys, drawn, monkeypatch):
    def save_heatmap(*args):
        warnings.warn("no font", UserWarning, stacklevel=2)

    monkeypatch.setattr(sys.modules["keras_attn.plots"], "save_heatmap", save_heatmap)
    printed = run(client, ["a"], capsys, attention_output="out.png")
    assert printed.err == "warning: out.png: no font\n"


def test_drawing_into_a_missing_directory(client, capsys, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib not installed")
    path = str(tmp_path / "absent" / "out.png")
    with pytest.raises(ClientError, match=r"Cannot draw --attention_output .*absent"):
        run(client, ["a"], capsys, attention_output=path)


def test_model_without_attention_has_nothing_to_draw():
    translation = Translation("b", ["b"], ["a"], 0.0, None, False)
    with pytest.raises(ClientError, match="this model has no attention"):
        client_main.draw("out.png", translation, 1)


def test_input_file(tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes("Übung\r\n\nzwei\u2028Teile".encode())
    assert client_main.read_lines(str(path)) == ["Übung", "", "zwei\u2028Teile"]


def test_input_file_errors(tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes(b"gut\n\xff\n")
    with pytest.raises(ClientError) as error:
        client_main.read_lines(str(path))
    assert str(error.value) == f"{path}, line 2: not valid UTF-8"
    absent = str(tmp_path / "absent")
    with pytest.raises(ClientError) as error:
        client_main.read_lines(absent)
    assert (
        str(error.value) == f"Cannot read --input {absent}: No such file or directory"
    )


def test_text_argument_that_is_not_utf8():
    with pytest.raises(ClientError, match="not valid UTF-8"):
        client_main.checked(["gut", os.fsdecode(b"\xff")])


def rpc_error(target, model_name, timeout=30.0, nbest=False):
    with TranslationClient(target, model_name, timeout) as client:
        with pytest.raises(grpc.RpcError) as error:
            (client.nbest if nbest else client.translate)(["a"])
        return client_main.describe(error.value, target)


def test_unknown_model_is_one_line_with_a_hint(translator):
    target = f"127.0.0.1:{translator.port}"
    assert rpc_error(target, "absent") == (
        f"NOT_FOUND from {target}: Servable not found for request: Latest(absent) "
        "Give the name the server was started with as --model_name."
    )


def test_server_that_is_not_there():
    message = rpc_error("127.0.0.1:1", "translator")
    assert message.startswith("UNAVAILABLE from 127.0.0.1:1: ")
    assert message.endswith(
        "Is the server running there? Start one with python -m serving.server."
    )
    assert "\n" not in message


def test_model_of_another_kind(numbers):
    target = f"127.0.0.1:{numbers.port}"
    assert rpc_error(target, "numbers", nbest=True) == (
        f'FAILED_PRECONDITION from {target}: Serving signature key "nbest" not found. '
        "Is this model a translator exported by keras_attn?"
    )


def test_rest_port_is_not_the_grpc_port(translator):
    message = rpc_error(f"127.0.0.1:{translator.rest_port}", "translator", 5)
    assert "\n" not in message
    assert message.startswith("UNAVAILABLE from 127.0.0.1:")


def test_program(translator, tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("aus Datei\n")
    command = [sys.executable, "-m", "serving.client", "--model_name=translator"]
    server = f"--server=127.0.0.1:{translator.port}"
    finished = subprocess.run(
        [*command, server, "--text=eins zwei", "--text=", f"--input={path}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "zwei eins\n\nDatei aus\n"


def test_program_without_a_server():
    finished = subprocess.run(
        [sys.executable, "-m", "serving.client", "--server=127.0.0.1:1", "--text=a"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (finished.returncode, finished.stdout) == (1, "")
    # Above it may stand what TensorFlow says when it is imported.
    last_line = finished.stderr.splitlines()[-1]
    assert last_line.startswith("error: UNAVAILABLE from 127.0.0.1:1: ")
