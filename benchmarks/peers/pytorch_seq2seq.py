"""The default `AttentionSeq2Seq` and its searches as a PyTorch user writes them.

Bidirectional GRU encoder over packed sequences, additive attention on keys computed
once a source, a `GRUCell` loop under teacher forcing, and readout and output layer for
all positions at once. `copy_weights` takes over a Keras model's weights, so that both
compute the same numbers; the benchmarks check that before they time anything.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

PAD_ID, BOS_ID, EOS_ID = 0, 2, 3


class Encoder(nn.Module):
    """Source ids `[B, S]` to memory `[B, S, 2 * units]` and state `[B, 2 * units]`."""

    def __init__(self, vocabulary_size: int, embedding_dim: int, units: int, dropout):
        super().__init__()
        self.embedding = nn.Embedding(
            vocabulary_size, embedding_dim, padding_idx=PAD_ID
        )
        self.dropout = nn.Dropout(dropout)
        self.gru = nn.GRU(embedding_dim, units, batch_first=True, bidirectional=True)

    def forward(self, source_ids: Tensor) -> tuple[Tensor, Tensor]:
        lengths = (source_ids != PAD_ID).sum(1)
        embedded = self.dropout(self.embedding(source_ids))
        packed = pack_padded_sequence(
            embedded, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        outputs, final = self.gru(packed)
        memory, _ = pad_packed_sequence(
            outputs, batch_first=True, total_length=source_ids.shape[1]
        )
        # final: [2, B, units], forward first
        return memory, torch.cat([final[0], final[1]], dim=-1)


class AdditiveAttention(nn.Module):
    """e_ij = v . tanh(W_q s_i + W_m h_j)."""

    def __init__(self, query_dim: int, memory_dim: int, units: int):
        super().__init__()
        self.query_layer = nn.Linear(query_dim, units, bias=False)
        self.memory_layer = nn.Linear(memory_dim, units, bias=False)
        self.energy_layer = nn.Linear(units, 1, bias=False)

    def forward(self, query: Tensor, keys: Tensor, memory: Tensor, mask: Tensor):
        """Context `[B, D]` and weights `[B, S]` of a query `[B, Q]`."""
        hidden = torch.tanh(self.query_layer(query).unsqueeze(1) + keys)
        scores = self.energy_layer(hidden).squeeze(-1)
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return context, weights


class Seq2Seq(nn.Module):
    """The encoder-decoder of Bahdanau, Cho & Bengio 2015."""

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        embedding_dim: int = 256,
        encoder_units: int = 256,
        decoder_units: int = 256,
        embedding_dropout: float = 0.0,
        memory_dropout: float = 0.0,
        readout_dropout: float = 0.0,
    ):
        super().__init__()
        memory_dim = 2 * encoder_units
        self.encoder = Encoder(
            source_vocabulary_size, embedding_dim, encoder_units, embedding_dropout
        )
        self.bridge = nn.Linear(memory_dim, decoder_units)
        self.embedding = nn.Embedding(
            target_vocabulary_size, embedding_dim, padding_idx=PAD_ID
        )
        self.embedding_dropout = nn.Dropout(embedding_dropout)
        self.memory_dropout = nn.Dropout(memory_dropout)
        self.readout_dropout = nn.Dropout(readout_dropout)
        self.attention = AdditiveAttention(decoder_units, memory_dim, decoder_units)
        self.cell = nn.GRUCell(embedding_dim + memory_dim, decoder_units)
        self.readout = nn.Linear(
            decoder_units + memory_dim + embedding_dim, decoder_units
        )
        self.output_layer = nn.Linear(decoder_units, target_vocabulary_size)

    def encode(self, source_ids: Tensor) -> dict[str, Tensor]:
        """The decoder's state before <s>; the batch is each tensor's first axis."""
        memory, final = self.encoder(source_ids)
        memory = self.memory_dropout(memory)
        return {
            "hidden": torch.tanh(self.bridge(final)),
            "keys": self.attention.memory_layer(memory),
            "memory": memory,
            "mask": source_ids != PAD_ID,
        }

    def attend_and_step(self, embedded: Tensor, state: dict[str, Tensor]):
        """The next hidden state and the context of one position `[B, E]`."""
        context, _ = self.attention(
            state["hidden"], state["keys"], state["memory"], state["mask"]
        )
        hidden = self.cell(torch.cat([embedded, context], dim=-1), state["hidden"])
        return hidden, context

    def logits(self, hidden: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        parts = torch.cat([hidden, context, embedded], dim=-1)
        readout = torch.tanh(self.readout(parts))
        return self.output_layer(self.readout_dropout(readout))

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Logits `[B, T, V]` under teacher forcing; `target_ids` start with <s>."""
        state = self.encode(source_ids)
        embedded = self.embedding_dropout(self.embedding(target_ids))
        hiddens, contexts = [], []
        for t in range(target_ids.shape[1]):
            state["hidden"], context = self.attend_and_step(embedded[:, t], state)
            hiddens.append(state["hidden"])
            contexts.append(context)
        return self.logits(
            torch.stack(hiddens, dim=1), torch.stack(contexts, dim=1), embedded
        )

    def step(self, token_ids: Tensor, state: dict[str, Tensor]):
        """One decoding step: logits `[N, V]` of tokens `[N]`, and the next state."""
        embedded = self.embedding(token_ids)
        hidden, context = self.attend_and_step(embedded, state)
        return self.logits(hidden, context, embedded), {**state, "hidden": hidden}


def loss_of(logits: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    """Mean over the real tokens of the label-smoothed cross-entropy."""
    return F.cross_entropy(
        logits.flatten(0, 1),
        labels.flatten(),
        ignore_index=PAD_ID,
        label_smoothing=label_smoothing,
    )


def train_step(
    model: Seq2Seq,
    optimizer: torch.optim.Optimizer,
    source_ids: Tensor,
    target_ids: Tensor,
    labels: Tensor,
    label_smoothing: float,
    clip_norm: float,
    autocast: bool = False,
) -> float:
    """One update; returns the loss before it."""
    device = source_ids.device
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=autocast):
        logits = model(source_ids, target_ids)
        loss = loss_of(logits, labels, label_smoothing)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


@torch.inference_mode()
def greedy_search(model: Seq2Seq, source_ids: Tensor, max_length: int) -> Tensor:
    """The most probable token at every position: ids `[B, T]`, </s> and pad behind."""
    state = model.encode(source_ids)
    tokens = source_ids.new_full((source_ids.shape[0],), BOS_ID)
    finished = torch.zeros_like(tokens, dtype=torch.bool)
    ids = []
    for _ in range(max_length):
        logits, state = model.step(tokens, state)
        logits[:, [PAD_ID, BOS_ID]] = -math.inf
        tokens = logits.argmax(-1).masked_fill(finished, PAD_ID)
        ids.append(tokens)
        finished |= tokens == EOS_ID
        if finished.all():
            break
    return torch.stack(ids, dim=1)


@torch.inference_mode()
def beam_search(
    model: Seq2Seq,
    source_ids: Tensor,
    beam_width: int,
    max_length: int,
    length_penalty: float,
) -> tuple[Tensor, Tensor]:
    """Batched beam search over K hypotheses a sentence.

    A hypothesis that ends in </s> stays in the beam with its score. The search is over
    when all hypotheses of all sentences have ended, or after `max_length` tokens.

    Returns:
        Ids `[B, K, T]`, </s> and padding behind, and scores `[B, K]`, log-probability /
        ((5 + n) / 6)^length_penalty with n the length counting </s>; best first.
    """
    batch_size, k, device = source_ids.shape[0], beam_width, source_ids.device
    state = {
        name: x.repeat_interleave(k, dim=0)
        for name, x in model.encode(source_ids).items()
    }
    first_rows = torch.arange(batch_size, device=device).unsqueeze(1) * k
    tokens = source_ids.new_full((batch_size * k,), BOS_ID)
    ids = source_ids.new_empty((batch_size * k, 0))
    finished = torch.zeros_like(tokens, dtype=torch.bool)
    lengths = torch.zeros_like(tokens)
    # The hypotheses of a sentence are one and the same at first: continue only one.
    scores = torch.full((batch_size, k), -math.inf, device=device)
    scores[:, 0] = 0.0
    for _ in range(max_length):
        logits, state = model.step(tokens, state)
        log_probs = logits.float().log_softmax(-1)
        log_probs[:, [PAD_ID, BOS_ID]] = -math.inf
        # A finished hypothesis goes on with padding, at no cost.
        log_probs[finished] = -math.inf
        log_probs[finished, PAD_ID] = 0.0
        vocabulary_size = log_probs.shape[-1]
        # [B, K * V]
        candidates = (scores.view(-1, 1) + log_probs).view(batch_size, -1)
        scores, index = candidates.topk(k, dim=-1)
        rows = (first_rows + index // vocabulary_size).flatten()
        tokens = (index % vocabulary_size).flatten()
        # The rest of the state is the same for all hypotheses of a sentence.
        state["hidden"] = state["hidden"].index_select(0, rows)
        ids = torch.cat([ids.index_select(0, rows), tokens.unsqueeze(1)], dim=1)
        lengths = lengths.index_select(0, rows)
        finished = finished.index_select(0, rows)
        lengths += ~finished
        finished |= tokens == EOS_ID
        if finished.all():
            break
    penalty = ((5 + lengths.view(batch_size, k)) / 6) ** length_penalty
    scores, order = (scores / penalty).sort(dim=-1, descending=True)
    ids = ids.view(batch_size, k, -1)
    return ids.gather(1, order.unsqueeze(-1).expand_as(ids)), scores


def copy_weights(weights: Mapping[str, np.ndarray], model: Seq2Seq) -> None:
    """Give the model the weights of an `AttentionSeq2Seq` of the same sizes.

    Args:
        weights: arrays by the paths that Keras gives them (`variable.path`).
        model: the model whose parameters are set.

    Raises:
        ValueError: a weight is missing, left over or of another shape.
    """
    weights = dict(weights)
    state: dict[str, Tensor] = {}

    def take(path: str) -> Tensor:
        if path not in weights:
            raise ValueError(f"No weight {path!r} among {sorted(weights)}")
        return torch.from_numpy(np.array(weights.pop(path), dtype="float32"))

    def linear(name: str, kernel: str, bias: str | None = None) -> None:
        state[f"{name}.weight"] = take(kernel).T
        if bias is not None:
            state[f"{name}.bias"] = take(bias)

    def gru(name: str, path: str, suffix: str = "") -> None:
        # Keras orders the gates z, r, n; PyTorch r, z, n.
        def reorder(x: Tensor) -> Tensor:
            z, r, n = x.chunk(3, dim=-1)
            return torch.cat([r, z, n], dim=-1)

        input_bias, recurrent_bias = take(f"{path}/bias")
        state[f"{name}.weight_ih{suffix}"] = reorder(take(f"{path}/kernel")).T
        state[f"{name}.weight_hh{suffix}"] = reorder(take(f"{path}/recurrent_kernel")).T
        state[f"{name}.bias_ih{suffix}"] = reorder(input_bias)
        state[f"{name}.bias_hh{suffix}"] = reorder(recurrent_bias)

    state["encoder.embedding.weight"] = take("source_embedding/embeddings")
    state["embedding.weight"] = take("target_embedding/embeddings")
    gru("encoder.gru", "encoder/forward_0/gru_cell", "_l0")
    gru("encoder.gru", "encoder/backward_0/gru_cell", "_l0_reverse")
    linear("bridge", "bridge/dense_0_0/kernel", "bridge/dense_0_0/bias")
    linear("attention.query_layer", "decoder/attention/query_kernel")
    linear("attention.memory_layer", "decoder/attention/memory_kernel")
    state["attention.energy_layer.weight"] = take("decoder/attention/v")[None]
    gru("cell", "decoder/cell_0")
    linear("readout", "decoder/readout/kernel", "decoder/readout/bias")
    linear("output_layer", "output_layer/kernel", "output_layer/bias")
    if weights:
        raise ValueError(f"The model has no place for the weights {sorted(weights)}")
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(f"The models differ: {error}") from error
