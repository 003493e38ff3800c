"""Step functions over an alphabet, so that what a search should find can be read."""

import itertools

import numpy as np
from keras import ops

LETTERS = "abcdefghij"
VOCABULARY = ("<pad>", "<unk>", "<s>", "</s>", *LETTERS)
PAD, UNK, BOS, EOS = range(4)
NEVER = -1e9  # the logit of what has probability 0


def ids_of(text):
    return [VOCABULARY.index(letter) for letter in text]


def to_numpy(x):
    return np.asarray(ops.convert_to_numpy(x))


def hypotheses(result, row=0):
    """`[(letters, score), ...]` of one sentence, best first, empty slots left out."""
    ids, lengths, scores = map(to_numpy, (result.ids, result.lengths, result.scores))
    return [
        ("".join(VOCABULARY[i] for i in ids[row, k, : lengths[row, k]]), score)
        for k, score in enumerate(scores[row])
        if score > -np.inf
    ]


def assert_hypotheses(result, expected, row=0):
    """`expected`: `[(letters, score), ...]`."""
    found = hypotheses(result, row)
    assert [text for text, _ in found] == [text for text, _ in expected]
    np.testing.assert_allclose([s for _, s in found], [s for _, s in expected], 1e-5)


class Chain:
    """Tokens whose probability depends on the last one; those not named have none.

    The weights of a step are its number and the token it was given: `[time, token]`.

    Args:
        table: `{token: {next token: probability}}`, the first token "<s>".
    """

    def __init__(self, table):
        self.log_probs = np.full((len(VOCABULARY),) * 2, NEVER, "float32")
        for token, following in table.items():
            for successor, probability in following.items():
                cell = VOCABULARY.index(token), VOCABULARY.index(successor)
                self.log_probs[cell] = np.log(probability)

    def start(self, batch_size=1):
        return {"time": ops.zeros((batch_size,))}

    def step(self, token_ids, state):
        logits = ops.take(ops.convert_to_tensor(self.log_probs), token_ids, axis=0)
        weights = ops.stack([state["time"], ops.cast(token_ids, "float32")], axis=1)
        return logits, weights, {"time": state["time"] + 1}


class Recurrent:
    """Random probabilities that depend on the sentence and on all tokens before.

    The state is a number that every token changes, the tokens so far (<s> first), and
    the number of the sentence, which no step touches. The weights of a step are what
    the state records, `[sentence, <s>, first token, ...]`: a hypothesis whose state or
    weights are another's shows it.

    Args:
        letters: the letters with a real probability, beside </s>.
        unknown: whether <unk> has one too.
        max_length: the most steps.
    """

    STATES = 211

    def __init__(self, letters, max_length, unknown=False, seed=0):
        rng = np.random.default_rng(seed)
        self.max_length = max_length
        self.tokens = [EOS, *ids_of(letters), *([UNK] if unknown else [])]
        self.logits = np.full((self.STATES, len(VOCABULARY)), NEVER, "float32")
        # <pad> and <s> are the likeliest everywhere, and forbidden.
        self.logits[:, [PAD, BOS]] = 3.0
        draw = rng.normal(0, 1.5, size=(self.STATES, len(self.tokens)))
        self.logits[:, self.tokens] = draw

    def start(self, sentences):
        """The state before <s> of sentences with these numbers."""
        sentences = ops.cast(ops.convert_to_tensor(sentences), "int32")
        nothing = ops.zeros((ops.shape(sentences)[0], self.max_length), dtype="int32")
        return {
            "code": sentences,
            "prefix": nothing,
            "time": sentences * 0,
            "sentence": sentences[:, None],
        }

    def step(self, token_ids, state):
        code = self._next(state["code"], token_ids)
        here = ops.equal(
            ops.arange(self.max_length, dtype="int32"), state["time"][:, None]
        )
        prefix = ops.where(here, token_ids[:, None], state["prefix"])
        logits = ops.take(ops.convert_to_tensor(self.logits), code, axis=0)
        weights = ops.concatenate([state["sentence"], prefix], axis=1)
        state = {
            "code": code,
            "prefix": prefix,
            "time": state["time"] + 1,
            "sentence": state["sentence"],
        }
        return logits, ops.cast(weights, "float32"), state

    def _next(self, code, token):
        return (code * 31 + token * 7 + 5) % self.STATES

    def log_prob(self, sentence, ids):
        """Log-probability of emitting exactly `ids`."""
        code, total = sentence, 0.0
        for last, token in itertools.pairwise([BOS, *ids]):
            code = self._next(code, last)
            logits = self.logits[code].astype("float64")
            total += logits[token] - np.log(np.sum(np.exp(logits)))
        return total

    def score(self, sentence, ids, alpha, finished=True):
        """The score of a hypothesis, by the definition."""
        emitted = [*ids, EOS] if finished else list(ids)
        return self.log_prob(sentence, emitted) / ((5 + len(emitted)) / 6) ** alpha

    def all_finished(self, sentence, alpha):
        """`[(letters, score), ...]` of every hypothesis there is, best first."""
        letters = [token for token in self.tokens if token != EOS]
        every = [
            (ids, self.score(sentence, ids, alpha))
            for length in range(self.max_length)
            for ids in itertools.product(letters, repeat=length)
        ]
        every.sort(key=lambda hypothesis: -hypothesis[1])
        return [("".join(VOCABULARY[i] for i in ids), score) for ids, score in every]

    def attention(self, sentence, ids):
        """The rows a hypothesis `ids` must have, `[len(ids), 1 + max_length]`."""
        prefix = [BOS, *ids]
        return [
            [sentence, *prefix[: t + 1], *[0] * (self.max_length - t - 1)]
            for t in range(len(ids))
        ]
