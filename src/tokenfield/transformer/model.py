"""Transformer: the whole architecture, from text to points to text."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenfield import _checks as check
from tokenfield._compile import compiled, make_room
from tokenfield._front import front_door
from tokenfield._types import AnyArray
from tokenfield.attention.base import as_dtype
from tokenfield.errors import InputError, short
from tokenfield.flow import Flow
from tokenfield.measures import Tokens
from tokenfield.normalization import Free
from tokenfield.trajectory import Trajectory
from tokenfield.transformer.architecture import NORMS, Architecture, kernel_of, scheme_of
from tokenfield.transformer.block import Block
from tokenfield.transformer.embedding import Embedding, Head
from tokenfield.transformer.generation import generated
from tokenfield.transformer.norms import Norm, normed
from tokenfield.transformer.random import randomly
from tokenfield.transformer.residual import Residual
from tokenfield.transformer.tokenizers import Bytes, Tokenizer, given

Text = Any
"""A text, or the numbers of its tokens, shape (n,)."""


class Transformer(eqx.Module):
    r"""A Transformer: tokenizer, embedding, positions, L blocks of attention and feed-forward parts, norms, and a head.

    Its attentions and schemes of normalization are those of the library's flows. Depth is discrete: $x^{k+1} = B_k(x^k)$, with
    block $B_k$ the two sublayers $x \mapsto x + \mathrm{Att}(x)$, $x \mapsto x + \mathrm{MLP}(x)$ and norms where the
    scheme puts them
    [vaswani2017; rigollet2025, section 6.2].

    - `Transformer.random(architecture, seed=0)` has random weights; `Transformer.load(folder)` trained ones.
    - `model.tokens(text)`: the embedded tokens. `model.run(text)`: the trajectory over layers, which observables, pictures and
      movies accept. `model.attention(text)`: the attention matrices.
    - `model.flow(k)`: the flow whose Euler step block k is; `model.repeat(text, k, 400)` iterates it.
    - `model.replace(attention=..., beta=..., normalization=...)` asks what if.
    - `model.logits(text)`, `model.generate(text, n)`.

    >>> import tokenfield as tkf
    >>> model = tkf.Transformer.random(tkf.Architecture(vocabulary=257, d=32, layers=3, heads=4), seed=0)
    >>> run = model.run("tokens are particles")
    >>> run.x.shape, model.attention("tokens")[0].shape
    ((4, 20, 32), (4, 6, 6))
    """

    embedding: Embedding
    blocks: tuple[Block, ...]
    norm: Norm | None
    head: Head | None
    architecture: Architecture = eqx.field(static=True)
    tokenizer: Tokenizer = eqx.field(static=True)
    name: str = eqx.field(static=True, default="Transformer")

    @staticmethod
    @front_door
    def random(architecture: Architecture | None = None, *, seed: int = 0, tokenizer: Any = None) -> "Transformer":
        """A model before training: weights N(0, 0.02²), those that write to the residual stream smaller by √(2L).

        **Arguments**

        - `architecture`: its sizes and kinds; those of `Architecture()` when left out.
        - `seed`: the seed of the random numbers.
        - `tokenizer`: how text becomes tokens; bytes when left out.

        **Returns** the model, in float32.

        **Raises** `InputError` where the seed is no whole number, or there is no room.

        >>> import tokenfield as tkf
        >>> tkf.Transformer.random(tkf.Architecture(d=32, layers=2, heads=4)).parameters
        37760
        """
        architecture = Architecture(vocabulary=Bytes.size) if architecture is None else architecture
        check.whole("seed", seed, 0, "the seed of the random numbers")
        words = Bytes() if tokenizer is None else given(tokenizer)
        return Transformer(*randomly(architecture, seed), architecture, words).astype("float32")

    @staticmethod
    @front_door
    def load(folder: str | Path, *, dtype: str = "float32", tokenizer: Any = None) -> "Transformer":
        """A model with trained weights, of the BERT, ALBERT, GPT-2 or LLaMA families, or one that `tokenfield train` has made.

        **Arguments**

        - `folder`: with config.json, weights (safetensors; pytorch_model.bin where torch is installed) and tokenizer.json, as
          Hugging Face has them; a GGUF file; a folder that training wrote; or the short name of an installed package, "minilm",
          "rxnmapper" or "smollm2".
        - `dtype`: the precision of the weights, "float32" or "float64".
        - `tokenizer`: instead of the one in the folder.

        **Returns** the model.

        **Raises** `StoreError` where files are missing, damaged or do not fit each other, `InputError` where the architecture, or
        an option of it, is not known.
        """
        from tokenfield.transformer.files import loaded

        return loaded(folder, dtype, tokenizer)

    @front_door
    def save(self, folder: str | Path) -> Path:
        """Write the model to a folder, whole or not at all, for `Transformer.load`: config.json, model.safetensors and, where it
        has one, tokenizer.json.

        **Arguments**

        - `folder`: the folder, which is made; a model of tokenfield's that is there is replaced.

        **Returns** the folder.

        **Raises** `StoreError` where the folder holds something else or cannot be written, `InputError` where the tokenizer is one
        of your own, which cannot be saved.
        """
        from tokenfield.transformer.files import own

        return own.save(self, folder)

    # What it is

    @property
    def depth(self) -> int:
        """How many blocks there are."""
        return len(self.blocks)

    @property
    def d(self) -> int:
        """The dimension of tokens."""
        return self.architecture.d

    @property
    def beta(self) -> Float[Array, ""] | None:
        """The β of the first block's kernel, which multiplies <q, k>; None where it has none."""
        return getattr(self.blocks[0].attention.f.kernel, "beta", None)

    @property
    def parameters(self) -> int:
        """How many numbers were, or are to be, trained; those that blocks share are counted once."""
        arrays = {
            id(leaf): leaf.size for leaf in jax.tree.leaves(self) if eqx.is_inexact_array_like(leaf) and np.ndim(leaf)
        }
        return sum(arrays.values())

    @property
    def dtype(self) -> Any:
        return self.embedding.words.dtype

    def astype(self, dtype: Any) -> "Transformer":
        """The model in another precision, "float32" or "float64"."""
        return _each_once(self, lambda leaf: check.on_device(np.asarray(leaf, dtype)))

    def __repr__(self) -> str:
        return f"{self.name}: {self.architecture}; {self.parameters:,} parameters in {self.dtype}"

    # Text

    @front_door
    def encode(self, text: Text) -> Int[AnyArray, " n"]:
        """The numbers of a text's tokens, checked against the vocabulary and the context.

        **Arguments**

        - `text`: a text, or numbers of tokens, shape (n,).

        **Returns** the numbers.

        **Raises** `InputError` where there are fewer than two tokens, more than positions, or numbers beyond the vocabulary.
        """
        ids = self._ids(text)
        if ids.ndim != 1:
            raise InputError(f"Numbers of tokens have shape (n,), one per token, but these have shape {ids.shape}.")
        if len(ids) < 2:
            raise InputError(
                f"A text must have at least two tokens, for there to be an interaction, but this has {len(ids)}: {short(text)}."
            )
        return ids

    def _ids(self, text: Text) -> np.ndarray:
        if isinstance(text, str):
            text = self.tokenizer.encode(text)
        ids = np.asarray(check.real_array("text", text, like="a text, or the numbers of its tokens"))
        if ids.size and (np.any(ids != np.floor(ids)) or ids.min() < 0 or ids.max() >= len(self.embedding.words)):
            raise InputError(
                f"Numbers of tokens are whole, from 0 to {len(self.embedding.words) - 1}, but these span "
                f"[{ids.min():g}, {ids.max():g}]."
            )
        longest = self.longest
        if ids.ndim and longest is not None and ids.shape[-1] > longest:
            raise InputError(
                f"The model has {longest} positions, but the text has {ids.shape[-1]} tokens. Cut it: ids = model.encode(...) of a "
                "shorter text."
            )
        return ids.astype(np.int32)

    @property
    def longest(self) -> int | None:
        """How many tokens a text may have; None where positions do not end."""
        return self.embedding.positions.longest

    @front_door
    def tokens(self, text: Text) -> Tokens:
        """The embedded tokens of a text, with their positions.

        **Arguments**

        - `text`: a text, or the numbers of its tokens.

        **Returns** `Tokens`, where the flows of blocks begin.

        **Raises** `InputError` where the text is too short or too long.
        """
        ids = self.encode(text)
        x = _embed(self.embedding, ids[None], _places(ids, self.dtype))[0]
        return Tokens(x, s=np.arange(len(ids)) / self.span)

    @property
    def span(self) -> int:
        """Positions are told to `Tokens` as fractions of this."""
        return max(self.architecture.context, 2)

    # Depth

    def __call__(self, ids: Any, weights: Any = None) -> Float[Array, "*batch n d"]:
        """The tokens after the last block and the last norm.

        **Arguments**

        - `ids`: numbers of tokens, shape (n,) or (batch, n).
        - `weights`: 1 for tokens, 0 for padding at the end; all 1 when left out.

        **Returns** the points, in the shape of the numbers.
        """
        numbers = self._ids(ids)
        if numbers.ndim not in (1, 2) or numbers.size == 0:
            raise InputError(
                f"Numbers of tokens have shape (n,), or (batch, n) for texts of one length, but these have shape {numbers.shape}."
            )
        make_room()
        many = np.atleast_2d(numbers)
        w = np.ones(many.shape) if weights is None else np.atleast_2d(check.real_array("weights", weights))
        if w.shape != many.shape:
            raise InputError(
                f"Argument `weights` must have the shape of the numbers, {numbers.shape}, but has {w.shape}."
            )
        w = np.asarray(w, self.dtype)
        σ = _places(many[0], self.dtype)
        x = _embed(self.embedding, many, σ)
        for block in self.blocks:
            x = _through(block, x, σ, w)
        return _last(self.norm, x).reshape(*numbers.shape, self.d)

    @front_door
    def run(self, text: Text, *, half: bool = False) -> Trajectory[Tokens]:
        """The trajectory of a text's tokens over the layers: time k is after k blocks. The last norm is left out.

        **Arguments**

        - `text`: a text, or the numbers of its tokens.
        - `half`: whether to keep the states between attention and the feed-forward part, at times k + 1/2.

        **Returns** a `Trajectory`, for observables, pictures, movies and storing.

        **Raises** `InputError` where the text is too short or too long.
        """
        mu = self.tokens(text)
        make_room()
        σ, w = _places(mu.x, self.dtype), np.ones((1, mu.n), self.dtype)
        x, states = mu.x[None], [mu.x]
        for block in self.blocks:
            middle = _halfway(block, x, σ, w)
            x = _rest(block, middle)
            states += [middle[0], x[0]] if half else [x[0]]
        times = np.arange(len(states)) / (2 if half else 1)
        return Trajectory.from_states([mu.with_points(state) for state in states], times)

    @front_door
    def attention(self, text: Text) -> list[Float[Array, "heads n n"]]:
        """The attention matrices of a text.

        **Arguments**

        - `text`: a text, or the numbers of its tokens.

        **Returns** one array per block, of shape (heads, n, n).

        **Raises** `InputError` where the text is too short or too long.
        """
        return [_matrices(block, x) for block, x in zip(self.blocks, self._states(text), strict=False)]

    @front_door
    def scores(self, text: Text) -> list[Float[Array, "heads n n"]]:
        """β<q_i, k_j> of a text, without masks; one array per block."""
        return [_scores(block, x) for block, x in zip(self.blocks, self._states(text), strict=False)]

    def _states(self, text: Text) -> Float[Array, "L n d"]:
        return self.run(text).x

    # Blocks as flows

    @front_door
    def flow(self, k: int) -> Flow:
        """The flow whose Euler step block k is: $\\dot x = B_k(x) - x$. `layers(flow, mu, 1)` is the block, `evolve` its continuous
        depth.

        **Arguments**

        - `k`: the number of the block, from 0; negative ones count from the end.

        **Returns** a `Flow`, for `model.tokens(text)` or the states of `model.run(text)`.

        **Raises** `InputError` where there is no such block.

        >>> import tokenfield as tkf
        >>> model = tkf.Transformer.random(tkf.Architecture(vocabulary=257, d=32, layers=3, heads=4), seed=0)
        >>> one = tkf.layers(model.flow(0), model.tokens("depth is time"), 1)
        >>> bool(abs(one.final.x - model.run("depth is time").x[1]).max() < 1e-6)
        True
        """
        return Flow(Residual(self._block(k), float(self.span)), Free())

    def _block(self, k: int) -> Block:
        k = check.integer("k", k)
        if not -self.depth <= k < self.depth:
            raise InputError(f"The model has blocks 0 to {self.depth - 1}, but block {check.brief(k)} was asked for.")
        return self.blocks[k]

    @front_door
    def repeat(self, text: Any, k: int = 0, times: int = 100) -> Trajectory[Tokens]:
        """The trajectory of a text's tokens when block k is applied again and again.

        **Arguments**

        - `text`: a text, or the numbers of its tokens.
        - `k`: the number of the block.
        - `times`: how often.

        **Returns** a `Trajectory` of times + 1 states.

        **Raises** `InputError` where there is no such block, or the text is too short or too long.
        """
        check.whole("times", times, 1, "how often the block is applied")
        mu, block = self.tokens(text), self._block(k)
        check.room(2 * times * mu.x.size * mu.x.dtype.itemsize, "The states of all repetitions")
        x = _repeated(block, mu.x, _places(mu.x, self.dtype), times)
        return Trajectory.from_states([mu.with_points(one) for one in np.asarray(x)])

    # What if

    @front_door
    def replace(self, *, attention: Any = None, beta: float | None = None, normalization: Any = None) -> "Transformer":
        """The same weights with another kind of attention, temperature or scheme.

        **Arguments**

        - `attention`: a kind by its name, at the model's own β (L2 at β/2, whose scores are 2β<q, k> - β|k|²); or a kernel such as
          `tkf.Sinkhorn(beta=0.2)`.
        - `beta`: what multiplies <q, k>, instead of `model.beta`.
        - `normalization`: a scheme. Every sublayer's norm moves to the scheme's places; where it has none, one without weights is
          put there. A model whose blocks no longer end with a norm gets one before its head, if it has none.

        **Returns** the changed model.

        **Raises** `InputError` where a kind is unknown or cannot do what the model asks, as be causal.
        """
        model = self
        if beta is not None and abs(check.number("beta", beta)) > (most := float(np.finfo(self.dtype).max)):
            raise InputError(f"Argument `beta` must be at most {most:.3g}, as {self.dtype} goes, but is {beta:g}.")
        if attention is not None or beta is not None:
            model = model._with_kernel(attention, beta)
        return model if normalization is None else model._arranged(scheme_of(normalization))

    def _with_kernel(self, attention: Any, beta: float | None) -> "Transformer":
        kernels = [self._kernel(block.attention.f.kernel, attention, beta) for block in self.blocks]
        pairs = zip(self.blocks, kernels, strict=True)
        heads = [eqx.tree_at(lambda f: f.kernel, block.attention.f, kernel) for block, kernel in pairs]
        heads[0].check()
        blocks = [eqx.tree_at(lambda b: b.attention.f, block, f) for block, f in zip(self.blocks, heads, strict=True)]
        of = self.architecture.with_(attention=kernels[0])
        return dataclasses.replace(self, blocks=tuple(blocks), architecture=of)

    def _kernel(self, old: Any, attention: Any, beta: float | None) -> Any:
        """What stands in a block for the kernel `old`. Where blocks have different β, their ratios stay."""
        kernel = old if attention is None else kernel_of(attention, self.architecture.head_size or 1)
        own, has = getattr(old, "beta", None), getattr(kernel, "beta", None) is not None
        if beta is not None and not has:
            raise InputError(f"{type(kernel).__name__} attention has no β.")
        if beta is not None:
            own = beta if own is None else beta * own / self.beta
        elif isinstance(attention, str) and own is not None and has:
            own = own * kernel.beta * self.architecture.head_size**0.5  # pyright: ignore[reportAttributeAccessIssue]
        else:
            return as_dtype(kernel, self.dtype)
        return as_dtype(eqx.tree_at(lambda a: a.beta, kernel, check.on_device(np.asarray(own))), self.dtype)

    def _arranged(self, scheme: Any) -> "Transformer":
        of = self.architecture
        fresh = Norm(None, None, of.eps, NORMS[of.norm])
        blocks = [block.arranged(scheme.places(k), fresh, self.dtype) for k, block in enumerate(self.blocks)]
        ends = scheme.places(self.depth - 1).after
        norm = self.norm if ends or self.norm is not None else fresh
        return dataclasses.replace(self, blocks=tuple(blocks), norm=norm, architecture=of.with_(normalization=scheme))

    # Text again

    @front_door
    def logits(self, text: Text) -> Float[Array, "*batch n vocabulary"]:
        """The logits of every token of the vocabulary at every place: for a causal model, of what comes next.

        **Arguments**

        - `text`: a text, or numbers of tokens, shape (n,) or (batch, n).

        **Returns** the logits.

        **Raises** `InputError` where the model has no head.
        """
        return _read(self._head(), self(text if not isinstance(text, str) else self.encode(text)), self.embedding.words)

    def _head(self) -> Head:
        if self.head is None:
            raise InputError(
                f"{self.name} has no head that predicts tokens: its weights end with the hidden states. model(ids) has those."
            )
        return self.head

    @front_door
    def generate(
        self,
        text: Any,
        n: int = 50,
        *,
        temperature: float = 0.0,
        seed: int = 0,
        cache: bool = True,
        watch: Callable[[int], Any] | None = None,
    ) -> str:
        """Go on with a text, token by token.

        **Arguments**

        - `text`: how it begins; or numbers of tokens.
        - `n`: how many tokens are added.
        - `temperature`: of the softmax from which tokens are drawn; 0 takes the likeliest.
        - `seed`: the seed of the draws.
        - `cache`: whether keys and values of earlier tokens are kept. Without it, everything is computed anew for every token.
        - `watch`: called with each new token's number.

        **Returns** what was added, as text. `model.continued(...)`, with the same arguments, gives the numbers of tokens.

        **Raises** `InputError` where the model is not causal or has no head, or the text would have more tokens than positions.
        """
        return self.tokenizer.decode(
            self.continued(text, n, temperature=temperature, seed=seed, cache=cache, watch=watch)
        )

    @front_door
    def continued(
        self,
        text: Any,
        n: int = 50,
        *,
        temperature: float = 0.0,
        seed: int = 0,
        cache: bool = True,
        watch: Callable[[int], Any] | None = None,
    ) -> list[int]:
        """The same as `generate`, as numbers of tokens."""
        check.whole("n", n, 1, "how many tokens are added")
        check.whole("seed", seed, 0, "the seed of the draws")
        if check.number("temperature", temperature) < 0:
            raise InputError(f"Argument `temperature` must not be negative, but is {temperature:g}.")
        if not self.architecture.causal:
            raise InputError("Text is generated by causal models, but this one's tokens see later ones, too.")
        self._head()
        ids = self._ids(text)
        if ids.ndim != 1 or len(ids) == 0:
            raise InputError("A text that is to go on must have at least one token.")
        if self.longest is not None and len(ids) + n > self.longest:
            raise InputError(
                f"The text has {len(ids)} tokens and is to have {n} more, but the model has {self.longest} positions."
            )
        return generated(self, ids, n, temperature, seed, cache, watch)


# Compiled programs: one per shape, however many blocks there are.


@compiled
def _embed(embedding: Embedding, ids: AnyArray, σ: AnyArray) -> Array:
    return jax.vmap(lambda ids: embedding(ids, σ))(ids)


@compiled
def _through(block: Block, x: Array, σ: AnyArray, w: AnyArray) -> Array:
    return jax.vmap(lambda x, w: block(x, σ, block.see(x, σ, w)))(x, w)


@compiled
def _halfway(block: Block, x: Array, σ: AnyArray, w: AnyArray) -> Array:
    return jax.vmap(lambda x, w: block.half(x, σ, block.see(x, σ, w)))(x, w)


@compiled
def _rest(block: Block, x: Array) -> Array:
    return jax.vmap(block.rest)(x)


@compiled
def _last(norm: Norm | None, x: Array) -> Array:
    return normed(norm, x)


@compiled
def _read(head: Head, x: Array, words: Array) -> Array:
    return head(x, words)


@compiled
def _matrices(block: Block, x: Array) -> Array:
    σ, w = jnp.arange(len(x), dtype=x.dtype), jnp.ones(len(x), x.dtype)
    return block.matrices(x, σ, block.see(x, σ, w))


@compiled
def _scores(block: Block, x: Array) -> Array:
    σ, w = jnp.arange(len(x), dtype=x.dtype), jnp.ones(len(x), x.dtype)
    return block.scores(x, σ, block.see(x, σ, w))


@compiled
def _repeated(block: Block, x: Array, σ: AnyArray, times: int) -> Array:
    w = jnp.ones(len(x), x.dtype)

    def step(x: Array, _: None) -> tuple[Array, Array]:
        after = block(x, σ, block.see(x, σ, w))
        return after, after

    return jnp.concatenate([x[None], jax.lax.scan(step, x, None, length=times)[1]])


def _places(rows: Any, dtype: Any) -> np.ndarray:
    """Positions 0, 1, 2, ..."""
    return np.arange(len(rows), dtype=dtype)


def _each_once(tree: Any, function: Any) -> Any:
    """The tree with a function of every array; arrays that are shared stay shared."""
    known: dict[int, Any] = {}

    def once(leaf: Any) -> Any:
        if not eqx.is_inexact_array(leaf) and not isinstance(leaf, np.ndarray):
            return leaf
        if id(leaf) not in known:
            known[id(leaf)] = function(leaf)
        return known[id(leaf)]

    return jax.tree.map(once, tree)
