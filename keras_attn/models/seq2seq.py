"""The encoder-decoder with and without attention as one functional model."""

from collections.abc import Callable

import keras
from keras import ops

from keras_attn import backend
from keras_attn.checks import check_fraction, check_one_of, check_positive
from keras_attn.decoding import SearchResult, beam_search, greedy_search
from keras_attn.layers import (
    AttentionDecoder,
    BahdanauAttention,
    Bridge,
    LuongAttention,
    OutputLayer,
    RNNEncoder,
)

ATTENTIONS = ("bahdanau", "luong_dot", "luong_general", "luong_concat")
BRIDGES = ("dense", "pass", "zero")


@keras.saving.register_keras_serializable("keras_attn")
class AttentionSeq2Seq(keras.Model):
    """Recurrent encoder-decoder for token sequences, with attention or without.

    Bahdanau's model is the default: a bidirectional GRU encoder, additive attention
    before the step of a GRU decoder, and a tanh readout. `attention="luong_general",
    attend="after"` (with `input_feeding`) is Luong's, `attention=None` the plain
    encoder-decoder that hands over one fixed vector.

    It is a functional Keras model: `compile`, `fit`, `save` and `summary` work as on
    any other.

    Args:
        source_vocabulary_size: number of source tokens, the four special ones among
            them (0 padding, 1 unknown, 2 <s>, 3 </s>).
        target_vocabulary_size: number of target tokens, likewise.
        embedding_dim: width of both embeddings.
        encoder_units: width of the encoder, per direction.
        decoder_units: width of the decoder.
        rnn: "gru" or "lstm".
        encoder_layers: number of encoder layers.
        decoder_layers: number of decoder layers.
        bidirectional: whether the encoder reads in both directions.
        attention: "bahdanau", "luong_dot", "luong_general", "luong_concat", an
            attention layer, or None.
        attend: "before" or "after" the decoder's step.
        input_feeding: whether the last readout enters the next step; with "after" only.
        readout_units: width of the readout; `decoder_units` by default. Attention only.
        bridge: how the decoder's first state comes from the encoder's last: "dense",
            "pass" or "zero".
        reset_after: GRU only; whether the reset gate is applied after the recurrent
            product or before it.
        dropout: rate on embeddings, memory, readout and between layers, in training,
            unless one of the next three says otherwise.
        embedding_dropout: rate on the embeddings.
        memory_dropout: rate on what the attention returns, applied to the memory.
        readout_dropout: rate on the input of the output layer.

    Call arguments:
        inputs: a dict of int32 `source_ids` `[B, S]` and `target_ids` `[B, T]`, 0 =
            padding, `target_ids` starting with <s>.

    Output:
        Logits `[B, T, target_vocabulary_size]` in the compute dtype: row t predicts the
        token after `target_ids[:, t]`.

    Example:

    >>> model = AttentionSeq2Seq(8000, 8000)
    >>> model.compile("adam", MaskedCrossEntropy())
    >>> model.fit(dataset)
    >>> result = model.generate(source_ids, beam_width=5, max_length=50)

    References: Bahdanau, Cho & Bengio 2015; Luong, Pham & Manning 2015; Sutskever,
    Vinyals & Le 2014; Cho et al. 2014.
    """

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        embedding_dim: int = 256,
        encoder_units: int = 256,
        decoder_units: int = 256,
        rnn: str = "gru",
        encoder_layers: int = 1,
        decoder_layers: int = 1,
        bidirectional: bool = True,
        attention: str | keras.layers.Layer | None = "bahdanau",
        attend: str = "before",
        input_feeding: bool = False,
        readout_units: int | None = None,
        bridge: str = "dense",
        reset_after: bool = True,
        dropout: float = 0.0,
        embedding_dropout: float | None = None,
        memory_dropout: float | None = None,
        readout_dropout: float | None = None,
        dtype=None,
        **kwargs,
    ):
        check_one_of("bridge", bridge, BRIDGES)
        check_fraction("dropout", dropout)
        options = {"dtype": dtype}

        def dropout_layer(rate, name):
            rate = dropout if rate is None else check_fraction(name, rate)
            return keras.layers.Dropout(rate, name=name, **options)

        def embedding(name, size):
            size = check_positive(f"{name}_vocabulary_size", size)
            return keras.layers.Embedding(
                size, embedding_dim, mask_zero=True, name=f"{name}_embedding", **options
            )

        source_embedding = embedding("source", source_vocabulary_size)
        target_embedding = embedding("target", target_vocabulary_size)
        encoder = RNNEncoder(
            encoder_units,
            rnn=rnn,
            num_layers=encoder_layers,
            bidirectional=bidirectional,
            dropout=dropout,
            reset_after=reset_after,
            name="encoder",
            **options,
        )
        decoder = AttentionDecoder(
            decoder_units,
            attention=make_attention(attention, decoder_units, **options),
            rnn=rnn,
            num_layers=decoder_layers,
            attend=attend,
            input_feeding=input_feeding,
            readout_units=readout_units,
            dropout=dropout,
            reset_after=reset_after,
            name="decoder",
            **options,
        )
        bridge_layer = None
        if bridge != "zero":
            bridge_layer = Bridge(
                decoder_units, decoder_layers, bridge, name="bridge", **options
            )
        memory_dropout_layer = dropout_layer(memory_dropout, "memory_dropout")
        source_dropout = dropout_layer(embedding_dropout, "source_embedding_dropout")
        target_dropout = dropout_layer(embedding_dropout, "target_embedding_dropout")
        readout_dropout_layer = dropout_layer(readout_dropout, "readout_dropout")
        output_layer = OutputLayer(
            target_vocabulary_size, name="output_layer", **options
        )

        source_ids = keras.Input((None,), dtype="int32", name="source_ids")
        target_ids = keras.Input((None,), dtype="int32", name="target_ids")
        memory, final_state = encoder(source_dropout(source_embedding(source_ids)))
        outputs, _ = decoder(
            target_dropout(target_embedding(target_ids)),
            memory_dropout_layer(memory),
            initial_state=bridge_layer(final_state) if bridge_layer else None,
        )
        logits = output_layer(readout_dropout_layer(outputs))
        super().__init__(
            inputs={"source_ids": source_ids, "target_ids": target_ids},
            outputs=logits,
            **kwargs,
        )
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.bridge = bridge_layer
        self.decoder = decoder
        self.output_layer = output_layer
        self._generate: dict[tuple, Callable] = {}
        self._config = {
            "source_vocabulary_size": source_vocabulary_size,
            "target_vocabulary_size": target_vocabulary_size,
            "embedding_dim": embedding_dim,
            "encoder_units": encoder_units,
            "decoder_units": decoder_units,
            "rnn": rnn,
            "encoder_layers": encoder_layers,
            "decoder_layers": decoder_layers,
            "bidirectional": bidirectional,
            "attention": attention,
            "attend": attend,
            "input_feeding": input_feeding,
            "readout_units": readout_units,
            "bridge": bridge,
            "reset_after": reset_after,
            "dropout": dropout,
            "embedding_dropout": embedding_dropout,
            "memory_dropout": memory_dropout,
            "readout_dropout": readout_dropout,
        }

    def begin(self, source_ids):
        """The decoder's state before <s>, of `source_ids` `[B, S]`."""
        embedded = self.source_embedding(source_ids)
        mask = ops.not_equal(source_ids, 0)
        memory, final_state = self.encoder(embedded, mask=mask)
        initial_state = self.bridge(final_state) if self.bridge else None
        return self.decoder.begin(memory, mask, initial_state)

    def step_weights(self):
        """What `step` needs of the weights, cast once: a nest of tensors."""
        output = self.output_layer.kernel, self.output_layer.bias
        return {
            "embedding": ops.convert_to_tensor(self.target_embedding.embeddings),
            "decoder": self.decoder.step_weights(),
            "output": [ops.cast(w, self.decoder.compute_dtype) for w in output],
        }

    def step(self, token_ids, state, step_weights=None):
        """One decoding step, as the searches take it.

        Args:
            token_ids: int32 `[N]`, the last tokens.
            state: what `begin` or the last `step` returned.
            step_weights: what `step_weights()` returned; taken when not given.

        Returns:
            `(logits [N, V], weights [N, S], state)`.
        """
        loop = self.step_weights() if step_weights is None else step_weights
        embedded = ops.take(loop["embedding"], token_ids, axis=0)
        outputs, weights, state = self.decoder.step(embedded, state, loop["decoder"])
        kernel, bias = loop["output"]
        return ops.add(ops.matmul(outputs, kernel), bias), weights, state

    def search(
        self,
        source_ids,
        beam_width: int = 5,
        max_length: int = 100,
        length_penalty: float = 0.6,
        n_best: int | None = None,
    ) -> SearchResult:
        """Decode, as part of a graph; `generate` is this, compiled.

        Args:
            source_ids: int32 `[B, S]`, 0 = padding.
            beam_width: hypotheses kept; 1 is greedy search.
            max_length: the most tokens emitted, </s> among them.
            length_penalty: see `keras_attn.decoding.beam_search`.
            n_best: how many of the hypotheses have to be final; all by default.

        Returns:
            A `keras_attn.decoding.SearchResult`.
        """
        check_positive("beam_width", beam_width)
        source_ids = ops.convert_to_tensor(source_ids, dtype="int32")
        options = {
            "batch_size": ops.shape(source_ids)[0],
            "max_length": max_length,
            "length_penalty": length_penalty,
        }
        state, loop = self.begin(source_ids), self.step_weights()

        def step(token_ids, state):
            return self.step(token_ids, state, loop)

        if beam_width == 1:
            return greedy_search(step, state, **options)
        return beam_search(step, state, beam_width=beam_width, n_best=n_best, **options)

    def generate(
        self,
        source_ids,
        beam_width: int = 5,
        max_length: int = 100,
        length_penalty: float = 0.6,
        n_best: int | None = None,
    ) -> SearchResult:
        """Decode a batch of sources. Arguments and result are those of `search`."""
        options = (beam_width, max_length, length_penalty, n_best)
        if options not in self._generate:
            self._generate[options] = backend.compiled(
                lambda ids: self.search(ids, *options)
            )
        return self._generate[options](ops.convert_to_tensor(source_ids, "int32"))

    def get_config(self):
        config = dict(self._config)
        config["attention"] = keras.saving.serialize_keras_object(config["attention"])
        dtype = keras.saving.serialize_keras_object(self.decoder.dtype_policy)
        return {**config, "dtype": dtype, "name": self.name}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        for key in ("attention", "dtype"):
            config[key] = keras.saving.deserialize_keras_object(config[key])
        return cls(**config)


def make_attention(attention, units: int, dtype=None):
    """The attention layer of a name, with `units` for those that have a hidden layer.

    Args:
        attention: one of `ATTENTIONS`, a layer, or None.
        units: width of the hidden layer of the additive scores.
        dtype: dtype policy of the new layer.
    """
    if attention is None or isinstance(attention, keras.layers.Layer):
        return attention
    check_one_of("attention", attention, ATTENTIONS)
    if attention == "bahdanau":
        return BahdanauAttention(units, name="attention", dtype=dtype)
    score = attention.removeprefix("luong_")
    return LuongAttention(
        score,
        units=units if score == "concat" else None,
        name="attention",
        dtype=dtype,
    )
