"""`predict`: what the theory says of an architecture, without its weights."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

import tokenfield as tkf
from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield.errors import InputError, short, suggest
from tokenfield.normalization import AbstractNormalization
from tokenfield.store import tables
from tokenfield.transformer.architecture import Architecture
from tokenfield.transformer.files import plain
from tokenfield.transformer.files.config import Config
from tokenfield.transformer.files.families import FAMILIES
from tokenfield.transformer.outputs import drawn, prepare
from tokenfield.transformer.probe.curves import curve
from tokenfield.transformer.probe.statistics import advantage
from tokenfield.transformer.random import SCALE

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray

LEVELS = (0.9, 0.99)
"""Mean cosines whose depth is told."""
FARTHEST = 1000
"""Depths are looked for up to here, or four times the model's own."""
SAMPLE = 1 << 16
"""The most scores that stand for those of a query; beyond, tails are too thin to matter unless scores are very wide."""
LONGEST = 1e15
"""The longest context that is looked at."""
CONFIG = 4 << 20
"""Bytes that a config.json may have."""
FILES = ("predict.zarr", "predict.png", "predict.pdf")


@front_door
def predict(  # a front door
    architecture: Any,
    *,
    context: int | None = None,
    depth: int | None = None,
    rho: float = 0.1,
    beta: float | None = None,
    step: float = 1.0,
) -> "Prediction":
    r"""What the theory says of an architecture, without weights: how tokens gather through depth, and what its context length does.

    Tokens are equiangular, of cosine ρ at the start; attention is softmax with V = I, and a block adds `step` times its field,
    in the architecture's normalization and in the others [rigollet2025, section 6.2]. Feed-forward parts and masks are left
    out.

    β is that of a model before training. Weights N(0, σ²), σ = 0.02, make scores $s_{ij} = \langle W_Q y_i, W_K
    y_j\rangle/\sqrt{k}$ of normalized tokens, |y|² = d, normal over the keys j with the standard deviation $S = σ^2
    d\sqrt{1-ρ}$: given $q_i$, with $|q_i|^2 ≈ kσ^2d$, scores have the variance $|q_i|^2 σ^2 d(1-ρ)/k$ about their mean.
    Attention over n of them has $\sum_j P_{ij}^2 ≈ e^{S^2}/n$, and the effective β is the one at which equiangular tokens
    concentrate theirs as much: $(e^{2g}+n-1)/(e^g+n-1)^2$ with g = β(1-ρ). `probe` measures the same of trained models
    (`beta_concentrated`).

    With β = γ log n one layer of attention makes the cosine 1, 4ρ/(1+3ρ) or ρ, for γ(1-ρ) below, at and above 1, as n → ∞
    [rigollet2025, Theorem 7]: collapse, critical, identity. At finite n it is called critical where a token's own weight is
    within a factor e of all others' together, |γ(1-ρ) - 1| ≤ 1/log n.

    **Arguments**

    - `architecture`: an `Architecture`; or a config.json of the BERT, ALBERT, GPT-2 or LLaMA families, as its path or its fields.
    - `context`: the number n of tokens; the architecture's context when left out.
    - `depth`: how many blocks; the architecture's when left out.
    - `rho`: the mean cosine at the start, in [0, 1).
    - `beta`: the effective β, such as `probe` measures it; that before training when left out.
    - `step`: the length of what attention adds, over |x|.

    **Returns** a `Prediction`, which prints as a story.

    **Raises** `InputError` where the architecture or a number cannot be used, `StoreError` where a file cannot be read.

    >>> import tokenfield as tkf
    >>> told = tkf.predict(tkf.Architecture(d=768, layers=12, heads=12), context=8192)
    >>> told.regime, told.passes("PreLN()")
    ('collapse', {0.9: 4, 0.99: 11})
    """
    model = architecture if isinstance(architecture, Architecture) else architecture_of(architecture)
    n = check.whole("context", model.context if context is None else context, 2, "the number of tokens")
    layers = check.whole("depth", model.layers if depth is None else depth, 1, "the number of blocks")
    check.room(64 * 8 * max(FARTHEST, 4 * layers), "The layers of all normalizations")
    ρ = check.number("rho", rho)
    if not 0 <= ρ < 1:
        raise InputError(f"Argument `rho` must lie in [0, 1), but is {ρ:g}.")
    v = check.number("step", step, positive=True)
    S = None if beta is not None else spread(model, ρ)
    β = effective(S, n, ρ) if S is not None else check.number("beta", beta)
    if not 0 <= β < 1e6:
        raise InputError(f"Argument `beta` must lie between 0 and a million, but is {β:g}.")
    return Prediction(model, n, layers, ρ, S, β, v, _through(model, n, layers, ρ, β, v))


def architecture_of(config: Any) -> Architecture:
    """The architecture that a config.json describes; nothing but this function knows how it is read.

    **Arguments**

    - `config`: its path, or its fields.

    **Returns** the architecture.

    **Raises** `StoreError` where the file cannot be read or is no JSON, `InputError` where the architecture, or an option of
    it, is not known."""
    where = "The config"
    if isinstance(config, str | Path):
        where = str(config)
        config = plain.data(Path(config) / "config.json" if Path(config).is_dir() else Path(config), CONFIG)
    if not isinstance(config, dict) or not all(isinstance(name, str) for name in config):
        raise InputError(
            "predict takes a tkf.Architecture, or the path or the fields of a config.json, but got "
            f"{check.brief(config)}."
        )
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise InputError(
            f"{where}: the field `model_type` is {short(kind)}, an architecture that is not known. {suggest(kind, FAMILIES)}"
        )
    fields = Config(config, where)
    plan = FAMILIES[kind].plan(fields)
    fields.finish()
    return plan.architecture


# The effective β before training


def spread(model: Architecture, rho: float) -> float:
    """S, the standard deviation of scores over keys before training: β √k σ² d √(1-ρ), with the kernel's β, which is 1/√k as a
    rule.

    >>> round(spread(Architecture(d=384, heads=12), 0.0), 6)                            # 0.02² · 384
    0.1536
    """
    kernel: Any = getattr(model.attention, "beta", None)
    scale = 1.0 if kernel is None else float(np.asarray(kernel))
    return abs(scale) * float(model.head_size or 1) ** 0.5 * SCALE**2 * model.d * (1 - rho) ** 0.5


def effective(S: float, n: float, rho: float) -> float:
    """The β at which n equiangular tokens concentrate their attention as much as normal scores of standard deviation S make it."""
    return float(advantage(np.asarray([concentration(S, n)]), np.asarray([float(n)]))[0] / (1 - rho))


def concentration(S: float, n: float) -> float:
    r"""$\sum_j P_j^2$ of the softmax of n normal scores at their quantiles, about $e^{S^2}/n$ while S² is below (log n)/2.

    >>> round(float(concentration(0.5, 10_000) * 10_000 / np.exp(0.25)), 2)
    1.0
    """
    from scipy.special import ndtri

    m = int(min(n, SAMPLE))
    s = S * ndtri((np.arange(m) + 0.5) / m)
    p = np.exp(s - s.max())
    return float(np.sum((p / p.sum()) ** 2) * m / n)


def _through(model: Architecture, n: int, depth: int, rho: float, beta: float, step: float) -> "xarray.Dataset":
    """The cosine through layers, under every normalization; the architecture's own comes first."""
    import xarray

    farthest = max(FARTHEST, 4 * depth)
    schemes = {str(scheme): scheme for scheme in (model.normalization, *others(depth))}
    rows = [curve(scheme, rho, n, np.full(farthest, beta), np.full(farthest, step)) for scheme in schemes.values()]
    return xarray.Dataset(
        {"cosine": (("normalization", "layer"), np.stack(rows))},
        coords={"normalization": list(schemes), "layer": np.arange(farthest + 1)},
    )


def others(depth: int) -> list[AbstractNormalization]:
    """The normalizations that are compared; Mix-LN has a quarter of its blocks with Post-LN."""
    tau = float(max(1, depth // 4))
    return [tkf.PostLN(), tkf.PreLN(), tkf.PeriLN(), tkf.MixLN(tau=tau), tkf.NGPT(), tkf.SqrtScaling()]


@dataclasses.dataclass(frozen=True, eq=False)
class Prediction:
    """What the theory says of an architecture; it prints as a story.

    - `architecture`: the architecture; `context`, `depth`, `rho` and `step` as they were asked for.
    - `spread`: S, the standard deviation of scores before training; None where β was given.
    - `beta`: the effective β.
    - `data`: an xarray data set with the cosine under every `normalization` after every `layer`.
    """

    architecture: Architecture
    context: int
    depth: int
    rho: float
    spread: float | None
    beta: float
    step: float
    data: "xarray.Dataset"

    @property
    def gamma(self) -> float:
        """γ = β/log n."""
        return self.beta / np.log(self.context)

    @property
    def share(self) -> float:
        """γ(1-ρ), which is 1 at the transition."""
        return self.gamma * (1 - self.rho)

    @property
    def regime(self) -> str:
        """Where β = γ log n puts the context: "collapse", "critical" or "identity"."""
        return regime(self.share, self.context)

    @property
    def output(self) -> float:
        """The cosine of two outputs of one layer of attention alone: `long_context(n, ρ, γ)`."""
        return float(tkf.long_context(self.context, self.rho, self.gamma)) if self.beta > 0 else 1.0

    @property
    def critical_context(self) -> float | None:
        """The context length at the transition, longer ones collapse; None where there is none from 2 to 10¹⁵."""
        return critical_context(self.spread, self.beta, self.rho)

    @property
    def critical_beta(self) -> float:
        """The β at the transition: log n/(1-ρ)."""
        return float(np.log(self.context) / (1 - self.rho))

    @property
    def critical_factor(self) -> float | None:
        """By how much scores would have to be multiplied to reach the transition; None where nothing is known of their spread."""
        if self.spread is None or self.spread == 0:
            return None
        low, high = 0.0, 1e3
        for _ in range(60):
            S = (low + high) / 2
            less = effective(S, self.context, self.rho) < self.critical_beta
            low, high = (S, high) if less else (low, S)
        return high / self.spread

    @property
    def own(self) -> str:
        """The architecture's own normalization, as it is called in the data."""
        return str(self.data.normalization.values[0])

    def cosine(self, normalization: str | None = None) -> Float[np.ndarray, " layers"]:
        """The cosine before the first layer and after every one, under a normalization; its own when left out."""
        name = self.own if normalization is None else normalization
        if name not in self.data.normalization.values:
            raise InputError(f"Unknown normalization {short(name)}. {suggest(name, self.data.normalization.values)}")
        return self.data.cosine.sel(normalization=name).values

    def passes(self, normalization: str | None = None) -> dict[float, int | None]:
        """The depths at which the cosine passes 0.9 and 0.99; None where it does not within the layers that were computed."""
        ρ = self.cosine(normalization)
        return {level: int(np.argmax(ρ >= level)) if (ρ >= level).any() else None for level in LEVELS}

    def __repr__(self) -> str:
        return f"Prediction: {self.regime} at n = {self.context}, β = {self.beta:.3g}"

    def __str__(self) -> str:
        from tokenfield.transformer.foretold import story

        return story(self)

    @front_door
    def plot(self, path: str | Path | None = None) -> "matplotlib.figure.Figure | Path":
        """The picture: as a matplotlib figure, or written to a file.

        **Arguments**

        - `path`: such as predict.png or predict.pdf.

        **Returns** the figure, or where a path is given the path.

        **Raises** `StoreError` where it cannot be written.
        """
        from tokenfield.transformer.foretold import picture

        figure = picture(self)
        return figure if path is None else drawn(figure, Path(path))

    @front_door
    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write the data (predict.zarr) and the picture (predict.png, predict.pdf) to a folder.

        **Arguments**

        - `folder`: the folder, which is made.
        - `force`: whether a prediction that is there is replaced.

        **Returns** the folder.

        **Raises** `InputError` where the folder holds something else, or a prediction that is not to be replaced.
        """
        out = Path(folder)
        prepare(out, force, FILES, "prediction")
        numbers = {
            name: getattr(self, name) for name in ("context", "depth", "rho", "spread", "beta", "step", "regime")
        }
        about = {"prediction": str(self.architecture), **numbers, "version": tkf.__version__}
        tables.save(self.data, out / FILES[0], about)
        for name in FILES[1:]:
            self.plot(out / name)
        return out


def regime(share: float, n: float) -> str:
    """The name of γ(1-ρ) at n tokens.

    >>> regime(0.5, 1000), regime(1.05, 1000), regime(1.5, 1000)
    ('collapse', 'critical', 'identity')
    """
    if abs(share - 1) <= 1 / np.log(n):
        return "critical"
    return "collapse" if share < 1 else "identity"


def critical_context(S: float | None, beta: float, rho: float) -> float | None:
    """The n with γ(1-ρ) = 1: e^{β(1-ρ)} at a β that does not change with n, else by bisection in log n."""
    if S is None:
        n = float(np.exp(min(beta * (1 - rho), 700.0)))
        return n if 2 <= n <= LONGEST else None
    excess = lambda n: effective(S, n, rho) * (1 - rho) - np.log(n)
    low, high = np.log(2.0), np.log(LONGEST)
    if excess(2.0) < 0 or excess(LONGEST) > 0:
        return None
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(np.exp(middle)) > 0 else (low, middle)
    return float(np.exp(low))
