"""A trained transformer: its heads, its blocks, and the trajectory of a prompt through its layers."""

import json
from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attnflow._common.arrays import AnyArray
from attnflow._common.checks import InputError, require_count
from attnflow._common.precision import double
from attnflow._common.progress import Progress, reporting
from attnflow._common.seeds import Rng, seed_sequence
from attnflow.model.heads import Head
from attnflow.models.attention_part import AttentionPart
from attnflow.models.block import Block
from attnflow.models.config import Config
from attnflow.models.family import Family
from attnflow.models.head_weights import HeadWeights, weights_of_one
from attnflow.models.images import ImageReader, Patches, with_picture
from attnflow.models.norm import Norm
from attnflow.models.prompt import dataset, described, ending, follow, require_room_for_layers
from attnflow.models.tensors import FreshTensors, Tensors
from attnflow.models.tokenizer import Prompt, Tokenizer, Tokens
from attnflow.models.unembedding import Unembedding, UnembeddingPlan, read_unembedding
from attnflow.results.provenance import load_arguments

Reader = Tokenizer | ImageReader


class Model:
    """A trained transformer (see the package's docstring for the conventions); made by `load`.

    Examples
    --------
    >>> run = model.trajectory([5, 17, 3], attention=True)
    >>> run.sizes["time"] == model.config.layers + 1
    True
    >>> len(model.heads(layer=0)) == model.config.heads
    True
    >>> import attnflow as af
    >>> model.family, model.dtype, model.is_untrained
    ('bert', 'float64', False)
    >>> model.reads_text, model.has_unembedding  # this one came without a tokenizer and without an output layer
    (False, False)
    >>> af.models.load(model.origin).config == model.config
    True

    Prompts, weights and tensors:

    >>> stored = model.head_weights(layer=0)[0]
    >>> np.allclose(stored.W_O @ stored.W_V, model.heads(layer=0)[0].value_matrix)
    True
    >>> sorted(name for name, _ in model.stored_bytes())[0]
    'embeddings.LayerNorm.bias'
    >>> model.embed([5, 17, 3]).shape == (3, model.config.width)
    True
    >>> without = model.embed([5, 5], positions=False)
    >>> bool(np.all(without[0] == without[1]))
    True
    >>> tokens = model.embed([5, 17, 3])
    >>> np.array_equal(model.last_norm(tokens), tokens)  # BERT has none
    True
    >>> model.unembedding()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    attnflow._common.checks.InputError: bert has no unembedding that can be read ...
    >>> model.words([5, 17])
    ['5', '17']
    >>> untrained = model.reinitialised(rng=0)
    >>> untrained.is_untrained, untrained.config == model.config
    (True, True)
    """

    def __init__(
        self,
        name: str,
        origin: dict,
        config: Config,
        family: Family,
        tensors: Tensors,
        reader: Reader,
        output: UnembeddingPlan | None = None,
    ):
        self.name = name
        self._origin = origin  # the argument of `load`, and the seed of random weights
        self.config = config
        self._family = family
        self._tensors = tensors
        self._reader = reader
        self._output = output
        self._last_block: tuple[int, Block] | None = None

    @property
    def family(self) -> str:
        """The family, such as "bert", "roberta", "gpt2" or "llama"."""
        return self.config.family

    @property
    def origin(self) -> str:
        """The argument of `load` that opens the trained model again."""
        return self._origin["origin"]

    @property
    def load_arguments(self) -> str:
        """All arguments of `load` that open the trained model again, as code: the tower and the revision, too.

        Examples
        --------
        >>> model.load_arguments == repr(model.origin)
        True
        """
        return load_arguments(self._origin)

    @property
    def is_untrained(self) -> bool:
        """Whether the weights are random initial ones, made by `reinitialised`."""
        return "reinitialised" in self._origin

    @property
    def dtype(self) -> str:
        """The precision that prompts are evaluated in."""
        return self._tensors.dtype

    def __repr__(self) -> str:
        return f"<Model {self.name}: {self.config.summary()}>"

    def heads(self, layer: int = 0, *, folded: bool = True) -> list[Head]:
        """The heads of a layer in float64, factors kept: Q = W_Q / sqrt(k), K = W_K, V = W_O W_V.

        In a "pre" model (GPT-2, Llama) heads read normalised tokens. Gain and centring of that norm are folded into
        Q, K and V, which then act on tokens of root mean square 1: W diag(gain) C in place of W. Where queries and keys
        are normalised (Qwen 3, Gemma 3, OLMo 2), Q and K have the gain of those norms, and are divided by the root
        mean square of queries and keys over isotropic tokens, |W|_F / sqrt(k), in place of that of each token.
        With `folded=False` the matrices are as stored, and act on the output of the norm, `Block.attention_input`.
        The two are the same in other models. What a `Head` does not have, such as biases and rotary positions,
        `left_out_of_heads` names. Only the tensors of this layer's attention, and its norm, are read.

        Examples
        --------
        >>> head, d, k = model.heads(layer=0)[0], model.config.width, model.config.head_width
        >>> head.query.shape == (k, d), head.value_matrix.shape == (d, d)
        (True, True)
        """
        part = jax.tree.map(partial(np.asarray, dtype=float), self._attention(layer))
        if folded:
            part = self._folded(part, layer)
        sharing = part.heads // len(part.W_K)  # heads that share keys and values
        groups = [head // sharing for head in range(part.heads)]
        matrices = zip(part.W_Q * part.scale, part.W_K[groups], part.W_V[groups], part.W_O, strict=True)
        return [Head(*of_head) for of_head in matrices]

    def attention_norm(self, layer: int = 0) -> Norm | None:
        """The norm before the heads of a layer, which is all that is read; None where heads read the stream itself.

        Examples
        --------
        >>> model.attention_norm(0) is None  # BERT normalises after each sum
        True
        """
        self.require_layer(layer)
        is_pre = self.config.norm_place == "pre"
        return self._family.read_attention_norm(self._tensors, self.config, layer) if is_pre else None

    def _folded(self, part: AttentionPart, layer: int) -> AttentionPart:
        """The heads with the gain and centring of the norm before them, and linear queries and keys."""
        norm = self.attention_norm(layer)
        return (part if norm is None else part.folded(norm)).with_linear_queries()

    def head_weights(self, layer: int = 0) -> list[HeadWeights]:
        """The weights of a layer's heads as stored, biases included; heads that share keys get a copy each."""
        part = self._attention(layer)
        return [weights_of_one(part.with_heads((head,))) for head in range(part.heads)]

    def left_out_of_heads(self, layer: int = 0) -> tuple[str, ...]:
        """The parts of a layer's attention that `heads` leave out, in words: "biases", "rotary positions", and so on.

        The shift of a norm before the heads is one of the biases.

        Examples
        --------
        >>> model.left_out_of_heads(layer=0)
        ('biases',)
        """
        part, config = self._attention(layer), self.config
        biases = (part.b_q, part.b_k, part.b_v, part.b_o)
        has_shift = config.norm_place == "pre" and config.norm == "layer" and config.norm_has_shift
        parts = {
            "biases": has_shift or any(bias is not None for bias in biases),
            "rotary positions": part.rotary is not None,
            "relative positions": part.relative is not None,
            "differences in length among queries and among keys": part.query_norm is not None,
            "the bound on scores": part.softcap is not None,
            "the bound on queries, keys and values": part.clip is not None,
            "the norm of the output": config.has_output_norms or config.norm_place == "output",
        }
        return tuple(name for name, is_there in parts.items() if is_there)

    def block(self, layer: int = 0) -> Block:
        """The block of a layer, as pure functions in the model's precision.

        Its arrays are NumPy's: in float64 call it inside ``with jax.enable_x64(True):``.

        Examples
        --------
        >>> block = model.block(layer=0)
        >>> with jax.enable_x64(True):
        ...     after = block(jnp.asarray(model.embed([5, 17, 3])))
        >>> run = model.trajectory([5, 17, 3])
        >>> np.allclose(after, run.tokens.sel(time=1))
        True
        """
        self.require_layer(layer)
        key = 0 if self.config.shares_layers else layer
        last = self._last_block  # read once: another thread may replace it meanwhile
        if last is None or last[0] != key:
            self._tensors.require_room(self._family.stem(self.config, key))
            found = self._family.read_block(self._tensors, self.config, key)
            self._tensors.require_nothing_left(self._family.stem(self.config, key))
            last = self._last_block = (key, found)
        return last[1]

    def stored_bytes(self) -> Iterator[tuple[str, bytes]]:
        """Name and bytes of every tensor that the checkpoint stores, one at a time; nothing for random weights."""
        return self._tensors.stored_bytes()

    @property
    def reads_text(self) -> bool:
        """Whether the model comes with a tokenizer; without one, prompts are ids."""
        return self._reader.reads_text

    def encode(self, prompt: Prompt) -> Tokens:
        """A text as `ids` and `words`, with the special tokens the model expects; ids are taken as they are.

        In a model of images the prompt is an image file, colours (h, w, 3) of type uint8, or pixels (3, h, w) as the
        model takes them; the tokens are patches, whose words are their row and column.

        Examples
        --------
        >>> model.encode([5, 17, 3]).ids
        array([ 5, 17,  3])
        """
        found = self._reader.encode(prompt)
        if len(found) > self.config.positions and not self.config.may_resize_positions:
            raise InputError(
                f"`prompt` must have at most {self.config.positions} tokens, the positions that {self.name} knows, "
                f"but it has {len(found)}. Shorten it."
            )
        return found

    def embed(self, prompt: Prompt, *, positions: bool = True) -> np.ndarray:
        """The tokens that enter the first layer, (n, d); `positions=False` leaves learned positions out."""
        content = self.encode(prompt).content
        with double():
            return np.asarray(self._family.embed(self._tensors, self.config, content, positions))

    def last_norm(self, tokens: AnyArray) -> np.ndarray:
        """Tokens after the norm that follows the last layer; unchanged where the model has none."""
        norm = self._family.last_norm(self._tensors, self.config)
        with double():
            return np.asarray(tokens if norm is None else norm(jnp.asarray(tokens, self.dtype)))

    @property
    def has_unembedding(self) -> bool:
        """Whether the checkpoint stores the map of tokens to words, the output layer of a language model."""
        return self._output is not None

    def unembedding(self) -> Unembedding:
        """The map of tokens after `last_norm` to logits of all words; InputError where the checkpoint has none."""
        return read_unembedding(self._tensors, self.config, self._family.ANCHOR, self.require_unembedding())

    def require_unembedding(self) -> UnembeddingPlan:
        """Which tensors are the unembedding; InputError if the checkpoint stores none."""
        if self._output is None:
            raise InputError(
                f"{self.name} has no unembedding that can be read (an output layer such as lm_head.weight): its tokens "
                "predict no words. Use a checkpoint that was saved with its output layer, such as 'smollm2'."
            )
        return self._output

    def words(self, ids: AnyArray) -> list[str]:
        """The word of each id, its number where there is no tokenizer."""
        return self._reader.encode(np.asarray(ids)).words

    def trajectory(
        self,
        prompt: Prompt,
        layers: int | None = None,
        *,
        attention: bool = False,
        sublayers: bool = False,
        progress: Progress = None,
    ) -> xr.Dataset:
        """The prompt's tokens through the layers: `tokens` at time 0 (embedding), 1, ... after each layer.

        Parameters
        ----------
        prompt
            A text, ids, an image where the model takes one, or the result of `encode`.
        layers
            Number of layers that the prompt passes, from the first; ``--depth`` in commands. None: those of the model.
            More of them are allowed only if all are one (ALBERT).
        attention
            Keep `attention` too, (layer, head, token, source).
        sublayers
            Keep `after_attention` too, the residual stream after each attention half.
        progress
            As in `simulate`.

        Returns
        -------
        A dataset with the coordinates `word` and `id` of each token. `normed_tokens` is the last state after
        the model's last norm, which GPT-2 and Llama have; `tokens` are without it.
        """
        layers = self.require_depth(layers)
        encoded = self.encode(prompt)
        require_room_for_layers(self.config, layers, len(encoded), attention, np.dtype(self.dtype).itemsize)
        blocks = ((layer, self.block(layer % self.config.layers)) for layer in range(layers))
        with reporting(progress) as report, double():
            start = jnp.asarray(self.embed(encoded), self.dtype)
            kept = follow(blocks, start, layers, attention, report, may_end_early=True)
        if not sublayers:
            del kept["after_attention"]
        made = {"model": self.name, "config": described(self.config), "dtype": self.dtype, **self._origin}
        status, made["outcome"] = ending(kept, layers, encoded, self.name)
        run = dataset(kept, self.last_norm(kept["tokens"][-1]), encoded, status, made)
        return with_picture(run, encoded) if isinstance(encoded, Patches) else run

    def reinitialised(self, rng: Rng = None) -> "Model":
        """A model with the same config and random initial weights, the control for effects of training."""
        seed = seed_sequence(rng)
        deviation = partial(self._family.deviation, self.config)
        fresh = FreshTensors(seed, deviation, self.dtype, gain=1.0 - self.config.gain_offset)
        words = [int(word) for word in np.atleast_1d(np.asarray(seed.entropy, dtype=object))]
        origin = self._origin | {"reinitialised": json.dumps({"entropy": words, "spawn_key": list(seed.spawn_key)})}
        name = f"{self.name} (untrained)"
        return Model(name, origin, self.config, self._family, fresh, self._reader, self._output)

    def _attention(self, layer: int) -> AttentionPart:
        self.require_layer(layer)
        return self._family.read_attention(self._tensors, self.config, layer)

    def require_layer(self, layer: int, argument: str = "layer") -> None:
        """Raise InputError, about this argument, unless the model has a layer of that number."""
        require_count(layer, argument, least=0)
        if layer >= self.config.layers:
            raise InputError(
                f"`{argument}` must be from 0 to {self.config.layers - 1} in {self.name}, but it is {layer}."
            )

    def require_depth(self, layers: int | None, argument: str = "layers") -> int:
        """The number of layers that a prompt passes; InputError about this argument if the model has fewer."""
        if layers is None:
            return self.config.layers
        require_count(layers, argument)
        if layers > self.config.layers and not self.config.shares_layers:
            raise InputError(
                f"`{argument}` must be at most {self.config.layers}, the layers of {self.name}, but it is {layers}. "
                "Only a model with one shared layer (ALBERT) can be iterated further."
            )
        return layers
