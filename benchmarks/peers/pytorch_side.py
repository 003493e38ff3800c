"""PyTorch's side of the comparisons."""

import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from benchmarks.memory import peak_growth
from benchmarks.peers import pytorch_seq2seq as peer

Batch = Mapping[str, np.ndarray]


class PyTorchSide:
    """The plain PyTorch model; its methods are those of this project's sides.

    Args:
        vocabulary_sizes: source and target tokens.
        dtype_policy: "float32", or "mixed_bfloat16", which lets `choose_precision` turn
            on `torch.autocast`.
        embedding_dim: width of both embeddings.
        encoder_units: width of the encoder, per direction.
        decoder_units: width of the decoder.
        learning_rate: of Adam.
        label_smoothing: of the loss.
        clip_norm: largest norm of the gradient.
        device: "cpu" or "cuda".
        **dropout: `embedding_dropout`, `memory_dropout` and `readout_dropout`.
    """

    def __init__(
        self,
        vocabulary_sizes: Sequence[int],
        dtype_policy: str,
        embedding_dim: int,
        encoder_units: int,
        decoder_units: int,
        learning_rate: float = 1e-3,
        label_smoothing: float = 0.0,
        clip_norm: float = 1.0,
        device: str = "cpu",
        **dropout: float,
    ):
        torch.manual_seed(0)
        self.device = torch.device(device)
        self.may_autocast = dtype_policy == "mixed_bfloat16"
        self.autocast = False
        self.learning_rate = learning_rate
        self.label_smoothing = label_smoothing
        self.clip_norm = clip_norm
        self.model = peer.Seq2Seq(
            *vocabulary_sizes, embedding_dim, encoder_units, decoder_units, **dropout
        ).to(self.device)
        self.optimizer: torch.optim.Optimizer | None = None
        self.batches: list[list[torch.Tensor]] = []

    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    def load_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Take over our weights and forget all training."""
        peer.copy_weights(weights, self.model)
        self.optimizer = None

    def choose_precision(self, method: str, *args, **kwargs) -> str:
        """Turn autocast on if it makes a method faster; returns the dtype used.

        It is float32 under the policy "float32". Under the other one it is the faster
        one, since nobody would use bfloat16 where it is slower.
        """
        self.autocast = False
        if self.may_autocast and self._multiplies_faster_in_bfloat16():
            seconds = {}
            for autocast in (False, True):
                self.autocast = autocast
                getattr(self, method)(*args, **kwargs)
                start = time.perf_counter()
                getattr(self, method)(*args, **kwargs)
                seconds[autocast] = time.perf_counter() - start
            self.autocast = seconds[True] < seconds[False]
        return "bfloat16" if self.autocast else "float32"

    def set_precision(self, dtype: str) -> None:
        """Use what `choose_precision` has chosen in another process."""
        self.autocast = dtype == "bfloat16"

    def check(self, batch: Batch) -> tuple[np.ndarray, float, float]:
        """Logits, loss and norm of the gradient in float32, without dropout."""
        source_ids, target_ids, labels = self._tensors(batch)
        self.model.eval()
        logits = self.model(source_ids, target_ids)
        loss = peer.loss_of(logits, labels, label_smoothing=0.1)
        gradient = torch.autograd.grad(loss, list(self.model.parameters()))
        norm = torch.nn.utils.get_total_norm(gradient)
        return logits.detach().cpu().numpy(), loss.item(), norm.item()

    def check_search(
        self, source_ids: np.ndarray, **options
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids `[B, K, T]` and scores `[B, K]` in float32."""
        self.model.eval()
        ids = torch.from_numpy(source_ids).to(self.device)
        ids, scores = peer.beam_search(self.model, ids, **options)
        return ids.cpu().numpy(), scores.cpu().numpy()

    def set_batches(self, batches: Sequence[Batch]) -> None:
        """Train on these batches, round and round."""
        self.batches = [self._tensors(batch) for batch in batches]

    def train(self, steps: int) -> tuple[float, float]:
        """Seconds and mean loss of some steps from the first batch on."""
        if self.optimizer is None:
            parameters = self.model.parameters()
            self.optimizer = torch.optim.Adam(parameters, lr=self.learning_rate)
        self.model.train()
        total = 0.0
        start = time.perf_counter()
        for step in range(steps):
            total += peer.train_step(
                self.model,
                self.optimizer,
                *self.batches[step % len(self.batches)],
                label_smoothing=self.label_smoothing,
                clip_norm=self.clip_norm,
                autocast=self.autocast,
            )
        return time.perf_counter() - start, total / steps

    def training_memory(self, steps: int) -> int:
        """Bytes that training takes beyond the model; once, in a fresh process."""
        return peak_growth(lambda: self.train(steps))

    def search(
        self,
        source_ids: np.ndarray,
        beam_width: int,
        max_length: int,
        length_penalty: float,
        repeats: int = 1,
    ) -> float:
        """Seconds of a search, greedy at beam width 1."""
        self.model.eval()
        start = time.perf_counter()
        for _ in range(repeats):
            ids = torch.from_numpy(source_ids).to(self.device)
            if beam_width == 1:
                with self._precision():
                    peer.greedy_search(self.model, ids, max_length).cpu()
            else:
                self._beam_search(ids, beam_width, max_length, length_penalty)
        return (time.perf_counter() - start) / repeats

    def translate(
        self, sources: Sequence[np.ndarray], batch_size: int, **options
    ) -> tuple[float, list[np.ndarray]]:
        """Seconds, and the best target ids of all source ids; sorted by length."""
        self.model.eval()
        targets: list[np.ndarray] = [np.empty(0)] * len(sources)
        start = time.perf_counter()
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        for first in range(0, len(order), batch_size):
            rows = order[first : first + batch_size]
            tensors = [torch.from_numpy(sources[i]) for i in rows]
            source_ids = pad_sequence(tensors, batch_first=True).to(self.device)
            best = self._beam_search(source_ids, **options)[:, 0].numpy()
            for row, ids in zip(rows, best, strict=True):
                targets[row] = ids[(ids != peer.EOS_ID) & (ids != peer.PAD_ID)]
        return time.perf_counter() - start, targets

    def _beam_search(self, source_ids: torch.Tensor, *args, **kwargs) -> torch.Tensor:
        with self._precision():
            return peer.beam_search(self.model, source_ids, *args, **kwargs)[0].cpu()

    def _precision(self):
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast)

    def _tensors(self, batch: Batch) -> list[torch.Tensor]:
        names = ("source_ids", "target_ids", "labels")
        arrays = (np.asarray(batch[name], dtype="int64") for name in names)
        return [torch.from_numpy(array).to(self.device) for array in arrays]

    def _multiplies_faster_in_bfloat16(self) -> bool:
        """Whether it does in a product of some size; without support it takes ages."""

        def seconds(dtype):
            x = torch.ones((256, 256), dtype=dtype, device=self.device)
            (x @ x).cpu()
            start = time.perf_counter()
            (x @ x).cpu()
            return time.perf_counter() - start

        return seconds(torch.bfloat16) < seconds(torch.float32)
