"""Which operations a SavedModel may hold so that stock TF Serving can run it."""

import os
import pathlib

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

# The TF-Text operations linked into tensorflow_model_server (model_servers/BUILD,
# SUPPORTED_TENSORFLOW_OPS): all that the C++ part of TF-Text 2.18 to 2.21 registers.
TF_TEXT_OPERATIONS = frozenset(
    """
    CaseFoldUTF8 ConstrainedSequence FastBertNormalize FastWordpieceTokenizeWithOffsets
    FindSourceOffsets MaxSpanningTree NormalizeUTF8 NormalizeUTF8WithOffsetsMap
    PhraseTokenize RegexSplitWithOffsets RougeL SentenceFragments SentenceFragmentsV2
    SentencepieceDetokenizeOp SentencepieceIdToStringOp SentencepieceOp
    SentencepieceStringToIdOp SentencepieceTokenizeOp
    SentencepieceTokenizeWithOffsetsOp SentencepieceVocabSizeOp
    SplitMergeTokenizeWithOffsets TFText>BoiseTagsToOffsets TFText>ByteSplitByOffsets
    TFText>ByteSplitWithOffsets TFText>FastSentencepieceDetokenize
    TFText>FastSentencepieceTokenize TFText>FastWordpieceDetokenize
    TFText>NgramsStringJoin TFText>OffsetsToBoiseTags TFText>PhraseDetokenize
    TFText>RoundRobinGenerateMasks TFText>RoundRobinTrim TFText>Utf8Binarize
    TFText>WhitespaceTokenizeWithOffsetsV2 TokenizerFromLogits
    UnicodeScriptTokenizeWithOffsets WhitespaceTokenizeWithOffsets
    WordpieceTokenizeWithOffsets
    """.split()
)

# Core operations that nevertheless fail there: they call back into Python, need a GPU,
# or need XLA, which the server has off by default.
_NOT_SERVABLE = ("PyFunc", "EagerPyFunc", "Cudnn", "Xla")


def operations_of(directory: str | os.PathLike) -> set[str]:
    """The names of all operations in the graph and functions of a SavedModel."""
    saved_model = saved_model_pb2.SavedModel()
    saved_model.ParseFromString(
        (pathlib.Path(directory) / "saved_model.pb").read_bytes()
    )
    names: set[str] = set()
    for meta_graph in saved_model.meta_graphs:
        graph = meta_graph.graph_def
        names.update(node.op for node in graph.node)
        for function in graph.library.function:
            names.update(node.op for node in function.node_def)
    return names


def unservable_operations(directory: str | os.PathLike) -> list[str]:
    """The operations of a SavedModel that stock TF Serving cannot run, sorted."""
    return sorted(name for name in operations_of(directory) if not _servable(name))


def _servable(name: str) -> bool:
    if name in TF_TEXT_OPERATIONS:
        return True
    return hasattr(tf.raw_ops, name) and not name.startswith(_NOT_SERVABLE)
