"""`probe`: texts through a model and its controls, measured."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield.errors import InputError, suggest
from tokenfield.transformer.model import Transformer
from tokenfield.transformer.probe import statistics as of
from tokenfield.transformer.probe.controls import UNTRAINED, untrained
from tokenfield.transformer.probe.curves import CURVES, curves
from tokenfield.transformer.probe.looks import Look, looks, visible
from tokenfield.transformer.probe.result import Probe
from tokenfield.transformer.probe.stretch import MAPS, constants, exponent, lengths_for
from tokenfield.transformer.probe.texts import encoded, shuffled

if TYPE_CHECKING:
    import xarray

VARIANTS = ("text", "shuffled", "untrained")
"""The model on texts; the same weights on the same tokens in another order; untrained weights on the texts."""
SINKS = ("with", "without")
STATE = ("cosine", "rank", "clusters", "radius", "energy")
"""What is measured of every state."""
OFTEN = 48
"""At how many numbers of repetitions, evenly spaced in their logarithms, clusters are counted."""
Watch = Callable[[str], Any]


@front_door
def probe(  # noqa: PLR0913  # a front door
    model: Transformer,
    texts: Any = None,
    *,
    tokens: int | None = None,
    lengths: Any = None,
    lipschitz: int = 6,
    repeat: int | None = None,
    angle: float = 0.5,
    control: str = "initial",
    seed: int = 0,
    watch: Any = None,
) -> Probe:
    r"""What a model does to the tokens of texts, layer by layer, beside two controls and the theory.

    Of every state: the mean cosine $\frac{1}{n(n-1)}\sum_{i \neq j}\langle θ_i, θ_j\rangle$, the histogram of overlaps
    [rigollet2025, Figure 1], the effective rank, the number of clusters, the radius (the mean |x|), and the energy E_β of the
    directions over that of one cluster, at the median effective β of the model. Of every head: the entropy of attention, also
    over log n; the attention that the first and the most attended token hold; the effective β, which is the spread of scores in
    units of the spread of overlaps, $\mathrm{mean}_i\,\mathrm{std}_j(s_{ij}) / \mathrm{mean}_i\,\mathrm{std}_j \langle θ_i,
    θ_j\rangle$ over the keys j that query i sees, θ the directions of what attention reads (β itself for tokens on the sphere
    with Q = K = I); the correlation of scores and overlaps; and the β at which equiangular tokens concentrate their attention
    as much, $\sum_j P_{ij}^2$ being the same. Of some blocks: the local Lipschitz constant of attention, and of the block, at
    the first n tokens, with the exponent of n and its standard error [castin2024]. Of a model whose blocks are shared: clusters
    along many repetitions of its block.

    A token is a sink where the mean head of some layer gives it 0.2 more of the attention than uniform attention would;
    everything is measured with sinks and without them. The controls are the same weights on shuffled tokens, and untrained
    weights on the texts. The theory's curves are `layers` of equiangular tokens with V = I in the model's own normalization,
    from the same cosine, at the effective β of every layer, with steps of 1 and with steps as long as what attention adds, over
    |x|.

    **Arguments**

    - `model`: the model.
    - `texts`: a text, a list of texts, or lists of numbers of tokens; paragraphs of Python's language reference when left out.
    - `tokens`: how many tokens of every text are taken; all when left out, of the embedded texts 128.
    - `lengths`: numbers of tokens for Lipschitz constants; 8, 16, 32, ... up to the longest text when left out.
    - `lipschitz`: of how many blocks, evenly spaced, they are measured; 0 for none.
    - `repeat`: how often a shared block is repeated; 400 when left out, and 0 where blocks are not shared.
    - `angle`: the radius of a cluster, in radians.
    - `control`: untrained weights, "initial" (before training) or "own" (drawn anew with the scale of every tensor).
    - `seed`: the seed of shuffling and of untrained weights.
    - `watch`: called with a line of words before each part.

    **Returns** a `Probe`, which prints as a story, and has `data`, `plot`, `save` and a report in HTML.

    **Raises** `InputError` where a text is too short or too long, or an argument does not fit.

    >>> import tokenfield as tkf
    >>> model = tkf.Transformer.random(tkf.Architecture(vocabulary=257, d=32, layers=2, heads=4), seed=0)
    >>> found = tkf.probe(model, "tokens are particles", lipschitz=0)
    >>> found.data.cosine.dims, found.data.beta.shape
    (('variant', 'text', 'sinks', 'layer'), (3, 1, 2, 2, 4))
    """
    began = time.perf_counter()
    say: Watch = watch if watch is not None else lambda words: None
    if not callable(say):
        raise InputError(f"Argument `watch` must be a function of a line of words, but is {check.brief(watch)}.")
    if control not in UNTRAINED:
        raise InputError(f"Argument `control` is unknown: {check.brief(control)}. {suggest(control, UNTRAINED)}")
    if not 0 < check.number("angle", angle) < np.pi:
        raise InputError(f"Argument `angle` must lie between 0 and π, in radians, but is {angle:g}.")
    check.whole("lipschitz", lipschitz, 0, "of how many blocks Lipschitz constants are measured")
    check.whole("seed", seed, 0, "the seed of shuffling and of untrained weights")
    ids = encoded(model, texts, tokens)
    say(f"{len(ids)} texts of {', '.join(str(len(one)) for one in ids)} tokens")
    sizes = lengths_for(max(map(len, ids)), _numbers(lengths))
    study = Study(model, ids, float(angle), seed, control, say)
    times = study.times(repeat)
    found = study.layers()
    if lipschitz:
        found |= study.stretched(sizes, lipschitz)
    if times:
        found |= study.repeated(times)
    about = study.about() | {"seconds": round(time.perf_counter() - began, 3)}
    return Probe(study.labelled(found), about)


def _numbers(lengths: Any) -> Sequence[int] | None:
    if lengths is None:
        return None
    array = check.real_array("lengths", lengths, like="numbers of tokens")
    plain = np.atleast_1d(np.asarray(array)).ravel().tolist()
    return [check.integer("lengths", int(n) if n == np.floor(n) else n) for n in plain]


class Study:
    """A model, its texts and its controls, and what is measured of them: arrays by name, each with its dimensions."""

    def __init__(self, model: Transformer, ids: list[np.ndarray], angle: float, seed: int, control: str, say: Watch):
        self.model, self.ids, self.angle, self.seed, self.control, self.say = model, ids, angle, seed, control, say
        mixed = [shuffled(one, seed) for one in ids]
        self.variants = {
            "text": (model, ids),
            "shuffled": (model, mixed),
            "untrained": (untrained(model, seed, control), ids),
        }
        self.energy_beta = 1.0
        self.coords: dict[str, Any] = {}

    def layers(self) -> dict[str, Any]:
        """All that is measured of states and of attention, and the theory beside it."""
        rows = {}
        for name, (model, texts) in self.variants.items():
            self.say(f"layers: {name}")
            rows[name] = [self._text(model, text, first=name == "text" and not k) for k, text in enumerate(texts)]
        stacked = {
            key: np.stack([np.stack([row[key] for row in rows[v]]) for v in VARIANTS]) for key in rows["text"][0]
        }
        dims = {key: ("variant", "text", *DIMS[key]) for key in stacked}
        found = {key: (dims[key], values) for key, values in stacked.items()}
        found["theory"] = (("variant", "curve", "layer"), np.stack([self._theory(rows[v]) for v in VARIANTS]))
        return found

    def _text(self, model: Transformer, text: np.ndarray, first: bool) -> dict[str, np.ndarray]:
        states = np.asarray(model.run(text).x, np.float64)
        seen = visible(model, len(text))
        holds, steps, deep = [], [], np.zeros(len(text), bool)
        for look, x in zip(looks(model, states), states, strict=False):
            holds.append(of.held(look.P, seen))
            steps.append(of.step(look, x))
            deep |= of.sinks(look.P, seen)
        kept = [np.ones(len(text), bool), ~deep if (~deep).sum() > 1 else np.ones(len(text), bool)]
        heads = [_heads(look, seen, kept) for look in looks(model, states)]
        if first:
            self._settle_energy(heads)
        found = {key: np.asarray([[row[key] for row in pair] for pair in heads]).swapaxes(0, 1) for key in of.ATTENTION}
        found |= self._states(states, kept)
        held = np.asarray(holds)
        return found | {
            "first": held[:, :, 0],
            "most": held.max(axis=2),
            "most_token": held.mean(axis=1).argmax(axis=1),
            "sink_tokens": np.asarray(int(deep.sum())),
            "step": np.asarray(steps),
        }

    def _settle_energy(self, heads: list[list[dict[str, np.ndarray]]]) -> None:
        """The β of energies: the median effective β of the model at its first text."""
        values = np.asarray([pair[0]["beta"] for pair in heads])
        self.energy_beta = float(np.median(values[np.isfinite(values)])) if np.isfinite(values).any() else 1.0

    def _states(self, states: np.ndarray, kept: list[np.ndarray]) -> dict[str, np.ndarray]:
        some = [states] if kept[1].all() else [states, states[:, kept[1]]]
        twice = lambda rows: np.asarray(rows if len(rows) == 2 else 2 * rows)
        each = lambda function: twice([[function(x) for x in part] for part in some])
        return {
            "cosine": each(of.cosine),
            "histogram": each(of.histogram),
            "rank": each(of.rank),
            "clusters": twice([of.clusters(part, self.angle) for part in some]),
            "radius": each(of.radius),
            "energy": each(lambda x: of.energy(x, self.energy_beta)),
        }

    def _theory(self, rows: list[dict[str, np.ndarray]]) -> np.ndarray:
        model = self.model
        mean = lambda key: np.mean([row[key] for row in rows], axis=0)
        data = {key: np.stack([row[key][0] for row in rows], axis=-1) for key in ("beta", "beta_concentrated")}
        data |= {"step": mean("step"), "radius": mean("radius")[0, :-1]}
        n = round(float(np.mean([len(one) for one in self.ids])))
        try:
            return curves(model.architecture.normalization, float(mean("cosine")[0, 0]), n, data)
        except InputError:  # the scheme, or a gain in it, has no equation for equiangular tokens
            return np.full((len(CURVES), model.depth + 1), np.nan)

    def stretched(self, lengths: Sequence[int], many: int) -> dict[str, Any]:
        """Lipschitz constants against n, and their exponents."""
        blocks = np.unique(np.linspace(0, self.model.depth - 1, min(many, self.model.depth)).round().astype(int))
        shape = (len(VARIANTS), len(MAPS), len(blocks), len(self.ids), len(lengths))
        found = np.full(shape, np.nan)
        for v, (name, (model, texts)) in enumerate(self.variants.items()):
            for j, n in enumerate(lengths):
                self.say(f"Lipschitz constants: {name}, n = {n}")
                for k, text in enumerate(texts):
                    if len(text) >= n:
                        found[v, :, :, k, j] = constants(model, text, n, [int(b) for b in blocks])
        fits = np.asarray([[[exponent(lengths, rows) for rows in part] for part in which] for which in found])
        self.coords |= {"stretched": blocks, "n": np.asarray(lengths), "map": list(MAPS)}
        front = ("variant", "map", "stretched")
        return {
            "lipschitz": ((*front, "text", "n"), found),
            "exponent": (front, fits[..., 0]),
            "exponent_error": (front, fits[..., 1]),
        }

    def times(self, repeat: int | None) -> int:
        if repeat is None:
            return 400 if self.model.architecture.shared else 0
        return check.whole("repeat", repeat, 0, "how often the first block is repeated")

    def repeated(self, times: int) -> dict[str, Any]:
        """Clusters and mean cosine along repetitions of the first block."""
        rows, kept = [], np.unique(np.geomspace(1, times + 1, OFTEN).round().astype(int)) - 1
        self.coords["repetition"] = kept
        for name, (model, texts) in self.variants.items():
            self.say(f"the first block {times} times: {name}")
            runs = [np.asarray(model.repeat(text, 0, times).x[kept], np.float64) for text in texts]
            rows.append([(of.clusters(x, self.angle), [of.cosine(one) for one in x]) for x in runs])
        both = np.asarray(rows, float)
        dims = ("variant", "text", "repetition")
        return {"repeated_clusters": (dims, both[:, :, 0]), "repeated_cosine": (dims, both[:, :, 1])}

    def labelled(self, found: dict[str, Any]) -> "xarray.Dataset":
        import xarray

        edges = np.linspace(-1, 1, of.BINS + 1)
        coords = {
            "variant": list(VARIANTS),
            "sinks": list(SINKS),
            "curve": list(CURVES),
            "layer": np.arange(self.model.depth + 1),
            "block": np.arange(self.model.depth),
            "overlap": (edges[1:] + edges[:-1]) / 2,
            "tokens": ("text", np.asarray([len(one) for one in self.ids])),
        }
        return xarray.Dataset(found, coords=coords | self.coords)

    def about(self) -> dict[str, Any]:
        """What is known beside the numbers, as plain data."""
        import tokenfield

        named = lambda ids: " ".join(self.model.tokenizer.names([int(one) for one in ids[:12]]))
        return {
            "probe": self.model.name,
            "architecture": str(self.model.architecture),
            "parameters": self.model.parameters,
            "normalization": str(self.model.architecture.normalization),
            "texts": [f"{named(one)} ..." if len(one) > 12 else named(one) for one in self.ids],
            "control": self.control,
            "angle": self.angle,
            "seed": self.seed,
            "energy_beta": self.energy_beta,
            "made": time.strftime("%Y-%m-%d"),
            "version": tokenfield.__version__,
        }


def _heads(look: Look, seen: np.ndarray, kept: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    """What is measured of the heads of a block, among all tokens and among those that are no sinks."""
    every = {name: function(look, seen) for name, function in of.ATTENTION.items()}
    if kept[1].all():
        return [every, every]
    some, near = look.among(kept[1]), seen[np.ix_(kept[1], kept[1])]
    return [every, {name: function(some, near) for name, function in of.ATTENTION.items()}]


DIMS = {
    **dict.fromkeys(STATE, ("sinks", "layer")),
    "histogram": ("sinks", "layer", "overlap"),
    **dict.fromkeys(of.ATTENTION, ("sinks", "block", "head")),
    **dict.fromkeys(("first", "most"), ("block", "head")),
    "most_token": ("block",),
    "sink_tokens": (),
    "step": ("block",),
}
"""The dimensions of what is measured, after those of variants and texts."""
