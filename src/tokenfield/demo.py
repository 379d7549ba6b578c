"""The demonstration: from a uniform cloud through metastable clusters, in words as it happens."""

from tokenfield import observe
from tokenfield.measures import Tokens

BETA = 9.0
SPEC = {
    "measure": {"kind": "uniform_sphere", "n": 1000, "d": 3, "seed": 0},
    "flow": {"attention": {"kind": "softmax", "beta": BETA}, "normalization": {"kind": "post_ln"}},
    "time": {"end": 2000.0, "save": 240, "spacing": "log"},
    "output": {"picture": True, "animation": True},
}


class Narrator:
    """A watcher that speaks when something has happened: the number of clusters has fallen."""

    opening = (
        "1000 tokens, uniform on the sphere, under self-attention (SA) at β = 9.\n"
        "The energy is shown as a share of its largest value, reached when all tokens have met.\n"
    )

    def __init__(self) -> None:
        self.before: observe.Clusters | None = None
        self.since = 0.0

    def __call__(self, t: float, mu: Tokens) -> None:
        found = observe.clusters(mu)
        if self.before is not None and len(found) >= (
            len(self.before) if len(self.before) <= 10 else 0.55 * len(self.before)
        ):
            return
        share = float(2 * BETA * observe.energy(mu, BETA, scaled=True))
        bar = "█" * round(24 * share)
        print(
            f"  t = {t:8.2f}  {len(found):4d} clusters  energy {share:5.3f} {bar:<24} {self._words(t, found)}",
            flush=True,
        )
        self.before, self.since = found, t

    def _words(self, t: float, found: observe.Clusters) -> str:
        sizes = ", ".join(map(str, found.sizes))
        if self.before is None:
            return "a uniform cloud, chance neighbours only"
        if len(self.before) > 10:
            return "tokens gather" if len(found) > 10 else f"metastable clusters of {sizes}"
        if self.before.sizes[len(found)] < 20:
            return f"a straggler joins: {sizes}"
        return f"a merger after {t - self.since:.0f} units of time: {sizes}"
