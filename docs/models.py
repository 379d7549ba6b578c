"""The table of docs/models.md: every model, its formula, its source, what it is good for, and a picture that it made."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import tokenfield as tkf
from tokenfield.draw.view import Painter

HERE = Path(__file__).resolve().parent
CIRCLE = dict(n=200, d=2, seed=1)
BOX = dict(n=40, d=2, low=-3.0, high=3.0, seed=0)
TURN = [[0.0, -1.0], [1.0, 0.0]]


@dataclass
class Model:
    name: str
    formula: str
    source: str
    good_for: str
    flow: Any
    start: Any
    t: float
    layers: bool = False


def sphere(**options):
    return tkf.Tokens.uniform_sphere(**{**CIRCLE, **options})


def box(**options):
    return tkf.Tokens.uniform_box(**{**BOX, **options})


def ordered():
    return tkf.Tokens(sphere().x, s=np.linspace(0, 1, 200))


ATTENTION = [
    Model(
        "Softmax",
        "e^{s(x,y)} / ∫ e^{s(x,y')} dμ(y')",
        "rigollet2025 (1)",
        "the Transformer's own; SA with Post-LN",
        tkf.sa(20.0),
        sphere,
        8.0,
    ),
    Model(
        "Unnormalized",
        "e^{s(x,y)}",
        "rigollet2025 (USA)",
        "gradient flow of E_β; proofs",
        tkf.usa(5.0, scaled=True),
        sphere,
        40.0,
    ),
    Model(
        "L2",
        "e^{-β|Qx-Ky|²} / ∫ …",
        "castin2025",
        "Lipschitz attention; never blows up on Gaussians",
        tkf.Flow(tkf.L2(2.0)),
        box,
        1.2,
    ),
    Model(
        "Sinkhorn",
        "f(x) e^{s(x,y)} g(y), doubly stochastic",
        "castin2025",
        "every token is heard as much as it hears",
        tkf.Flow(tkf.Sinkhorn(20.0), tkf.PostLN()),
        sphere,
        12.0,
    ),
    Model(
        "Sigmoid",
        "σ(s(x,y) + b)",
        "castin2025",
        "attention without normalization across tokens",
        tkf.Flow(tkf.Sigmoid(8.0, b=-5.0), tkf.PostLN()),
        sphere,
        12.0,
    ),
    Model(
        "Linear",
        "s(x,y)",
        "castin2025",
        "O(n) attention; exact on Gaussians",
        tkf.Flow(tkf.Linear(2.0), tkf.PostLN()),
        sphere,
        6.0,
    ),
    Model(
        "ReLU",
        "max(s(x,y), 0)",
        "castin2025",
        "sparse linear attention",
        tkf.Flow(tkf.ReLU(2.0), tkf.PostLN()),
        sphere,
        12.0,
    ),
    Model(
        "Hardmax",
        "1 at argmax over j ≠ i, ties shared",
        "the limit β → ∞",
        "who follows whom; leaders",
        tkf.Flow(tkf.Hardmax(), tkf.PostLN()),
        sphere,
        6.0,
    ),
    Model(
        "Additive",
        "softmax of β vᵀ tanh(Wx + Uy)",
        "bahdanau2015",
        "scores that are not inner products",
        tkf.Flow(tkf.Additive(W=2.0, U=2.0, v=[3.0, 3.0]), tkf.PostLN()),
        sphere,
        6.0,
    ),
    Model(
        "MultiHead",
        "Σ_h Γ^{(h)}, or W_O [Γ^{(1)}; …; Γ^{(H)}]",
        "vaswani2017",
        "several kernels at once",
        tkf.Flow(tkf.MultiHead([tkf.Softmax(20.0), tkf.Softmax(5.0, V=TURN)]), tkf.PostLN()),
        sphere,
        5.0,
    ),
    Model(
        "Causal",
        "the same over τ ≤ σ; window, ALiBi, rotary",
        "castin2025",
        "decoders; Rényi centres",
        tkf.Flow(tkf.Causal(tkf.Softmax(30.0)), tkf.PostLN()),
        ordered,
        12.0,
    ),
    Model(
        "Krause",
        "P_ij - δ_ij, P fixed",
        "consensus",
        "the linear shadow of attention",
        tkf.krause(np.full((40, 40), 1 / 40)),
        box,
        1.0,
    ),
    Model(
        "MeanShift",
        "∇ log ∫ e^{-β|x-y|²/2} dμ(y)",
        "cheng1995",
        "clustering of data; β times SA on the sphere",
        tkf.mean_shift(2.0),
        box,
        1.5,
    ),
]
NORMALIZATION = [
    Model(
        "Free",
        "ẋ = Γ(x); layer x + τΓ(x)",
        "geshkovski2023",
        "R^d as it is",
        tkf.Flow(tkf.Softmax(1.0, V=-1.0)),
        box,
        2.0,
    ),
    Model(
        "Rescaled",
        "z = e^{-tV}x, ż = Σ P V(z_j - z_i)",
        "geshkovski2023",
        "polytopes and hyperplanes",
        tkf.Flow(tkf.Softmax(1.0), tkf.Rescaled()),
        box,
        6.0,
    ),
    Model(
        "PostLN", "θ̇ = P_θ a; layer LN(x + τa)", "rigollet2025 §6.2", "the sphere: SA, USA", tkf.sa(9.0), sphere, 12.0
    ),
    Model(
        "PreLN",
        "θ̇ = P_θ a/r, ṙ = <θ,a>; layer x + τΓ(LN x)",
        "rigollet2025 §6.2",
        "GPT, LLaMA; slows clustering down",
        tkf.Flow(tkf.Softmax(9.0), tkf.PreLN()),
        sphere,
        30.0,
    ),
    Model(
        "PeriLN",
        "θ̇ = P_θ a/(r|a|), ṙ = <θ,a>/|a|; layer x + τLN(Γ(LN x))",
        "rigollet2025 §6.2",
        "normalized on both sides",
        tkf.Flow(tkf.Softmax(9.0), tkf.PeriLN()),
        sphere,
        30.0,
    ),
    Model(
        "MixLN",
        "Post-LN while t ≤ τ, then Pre-LN",
        "rigollet2025 §6.2",
        "fast first, slow later",
        tkf.Flow(tkf.Softmax(9.0), tkf.MixLN(5.0)),
        sphere,
        20.0,
    ),
    Model(
        "NGPT",
        "θ̇ = α P_θ a/|a|; layer LN(x + τα LN(a))",
        "rigollet2025 §6.2",
        "steps of a chosen length",
        tkf.Flow(tkf.Softmax(9.0), tkf.NGPT(0.5)),
        sphere,
        20.0,
    ),
    Model(
        "SqrtScaling",
        "θ̇ = P_θ a/√(t+1)",
        "rigollet2025 §6.2",
        "clustering at the pace e^{-4√t}",
        tkf.Flow(tkf.Softmax(9.0), tkf.SqrtScaling()),
        sphere,
        40.0,
    ),
    Model(
        "TraceNorm",
        "ẋ = Γ(x) - λx, tr Σ = 1",
        "castin2025",
        "Σ/tr Σ: one scale for all, no blow-up",
        tkf.Flow(tkf.Softmax(2.0), tkf.TraceNorm()),
        box,
        4.0,
    ),
]
BLOCKS = [
    Model("MLP, added", "a = Γ(θ) + W₂σ(W₁θ + b₁) + b₂", "rigollet2025 §2", "the other half of a Transformer", tkf.Flow(tkf.Softmax(9.0), tkf.PostLN(), mlp=tkf.MLP.random(2, 16, seed=4)), sphere, 4.0),
    Model("MLP, around", "ż = W σ(Σ P V(z_j - z_i))", "geshkovski2023", "clustering survives it", tkf.Flow(tkf.Softmax(1.0), tkf.Rescaled(), mlp=tkf.MLP(activation="tanh", around=True)), box, 6.0),
    Model("FisherRao", "ẇ_i = λw_i(φ(x_i) - Σ w_jφ(x_j))", "rigollet2025", "weights evolve with the tokens", tkf.Flow(tkf.Unnormalized(5.0, scaled=True), tkf.PostLN(), reweighting=tkf.FisherRao(20.0)), sphere, 40.0),
    Model("noise", "dX = v dt + √(2/κ) dW", "rigollet2025 §7", "clusters that blur, melt and meet by chance", tkf.Flow(tkf.Softmax(9.0), tkf.PostLN(), kappa=150.0), sphere, 12.0),
    Model("layers", "X_{k+1} = N(X_k + τF_k(X_k))", "rigollet2025 §3.1", "the discrete Transformer, weights shared or not", tkf.Flow(tkf.Softmax(9.0), tkf.PostLN()), sphere, 12.0, layers=True),
]  # fmt: skip


def thumbnail(model: Model, path: Path) -> None:
    """Start, middle and end of a run, side by side."""
    if model.layers:
        run = tkf.layers(model.flow, model.start(), depth=int(model.t), save=3)
    else:
        run = tkf.evolve(model.flow, model.start(), model.t, save=3)
    assert run.status.ok, (model.name, run.message)
    figure = Figure(figsize=(4.2, 1.4))
    painter = Painter(run, size=160)
    for k in range(3):
        ax = figure.add_axes((k / 3, 0, 1 / 3, 1))
        painter.view.backdrop(ax)
        cloud = painter.cloud(k)
        ax.scatter(*cloud.places.T, s=0.5 * cloud.areas, c=cloud.paint, linewidths=0, zorder=2)
    figure.savefig(path, dpi=80)


def page() -> str:
    text = [
        "# Models",
        "",
        "Every model that the library knows, in one notation: s(x, y) = β<Qx, Ky> is the score, μ = Σ w_i δ_{x_i} the measure of",
        "tokens, Γ_μ(x) = ∫ k_μ(x, y) V y dμ(y) the field, θ = x/|x|, a = Γ(θ), P_θ the tangent projection. Any attention goes with",
        "any normalization (`Flow(attention, normalization)`); what makes no sense is refused with the reason. β, Q, K, V may be",
        "functions of t, or have one value per layer (`PerLayer`). In a spec the names are `softmax`, `post_ln`, ... with the same",
        "fields. Pictures: start, middle and end of a run; `make docs` draws them and writes this page.",
        "",
    ]
    for title, models in {
        "Attention: the kernel k_μ(x, y)": ATTENTION,
        "Normalization": NORMALIZATION,
        "Blocks and depth": BLOCKS,
    }.items():
        text += [f"## {title}", "", "| name | formula | source | good for | |", "|---|---|---|---|---|"]
        for model in models:
            formula = model.formula.replace("|", "\\|")
            image = f"images/models/{slug(model)}.png"
            text.append(f"| {model.name} | {formula} | {model.source} | {model.good_for} | ![{model.name}]({image}) |")
        text.append("")
    return "\n".join(text)


def slug(model: Model) -> str:
    return model.name.lower().replace(", ", "-")


def main() -> None:
    folder = HERE / "images" / "models"
    folder.mkdir(parents=True, exist_ok=True)
    for model in ATTENTION + NORMALIZATION + BLOCKS:
        print(model.name, file=sys.stderr)
        thumbnail(model, folder / f"{slug(model)}.png")
    (HERE / "models.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
