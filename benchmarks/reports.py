"""What each case measures and how its tables are made. Every function returns a section of the page."""

import json
import os
import tempfile

from benchmarks import causal as halves
from benchmarks import cold as cold_start
from benchmarks import many, models, page, pairs, phase, plots, sums, sweeping
from benchmarks import sinkhorn as balanced
from benchmarks.harness import SMALL, Demand, alternate, demanded, in_process, markdown, one_core, slope

ROUNDS, FEWER = 5, 3
CASES = {
    "velocity": "one SA velocity, n = 1000, d = 3, β = 9, float64",
    "solve": "one SA solve, n = 1000, d = 3, β = 9, t = 10, rtol 1e-6, float64",
    "gaussians": "10,000 Gaussian flows, softmax attention, d = 2, t = 5, rtol 1e-6",
    "fokker_planck": "noisy USA on the circle, 64 Fourier modes, β = 3, κ = 2, t = 20, tolerances for like errors",
}
CONTENDERS = {
    "velocity": ["tokenfield", "numpy", "torch_sdpa"],
    "solve": ["tokenfield", "scipy_rk45", "torchdiffeq"],
    "gaussians": ["tokenfield", "scipy_loop"],
    "fokker_planck": ["tokenfield", "scipy_bdf"],
}
SUMS = {
    "circle": {"few": 30, "many": 400, "ducc0": 2.5, "jax_finufft": 1.3},
    "sphere": {"few": 6, "many": 60, "ducc0": 1.5, "jax_finufft": None},
}


def solves(case: str) -> str:
    found = alternate("contenders", case, CONTENDERS[case], FEWER if case == "gaussians" else ROUNDS)
    return _side_by_side(CASES[case], {name: settings[case] for name, settings in found.items()})


def _side_by_side(title: str, found: dict, ours: str = "tokenfield") -> str:
    """One line per contender: medians, ratios, errors, notes."""
    head = ["", "median, ms", f"times {ours}'s", "error", "note"]
    return markdown(title, head, [[name, *_line(one, found[ours])] for name, one in found.items()])


def _line(one, ours) -> list[str]:
    if one is None:
        return ["", "", "", "could not run on this machine"]
    error = "" if one.error is None else f"{one.error:.1e}"
    return [f"{1e3 * one.seconds:.3g}", f"{one.seconds / ours.seconds:.2f}", error, one.note]


def cold(case: str) -> str:
    """The first answer of a process, beside a plain solve of the same equation."""
    in_process("cold", case, "tokenfield, warm cache")  # which fills the cache
    found = alternate("cold", case, cold_start.CONTENDERS, ROUNDS)
    peers = found["diffrax"]
    assert all(abs(one["both"].check - peers["both"].check) < 1e-2 for one in found.values()), "all solve one equation"
    head = ["", "import, s", "first answer, s", "both, s", "first answer / diffrax's", "both / diffrax's"]
    rows = []
    for name, one in found.items():
        ratios = [one[part].seconds / peers[part].seconds for part in ("first answer", "both")]
        seconds = [one[part].seconds for part in ("import", "first answer", "both")]
        rows.append([name, *(f"{value:.2f}" for value in (*seconds, *ratios))])
    ratio = lambda name, part: found[f"tokenfield, {name} cache"][part].seconds / peers[part].seconds
    demands = [
        Demand("first answer, empty cache, over diffrax's", 1.5, [ratio("empty", "first answer")], least=False),
        Demand("first answer, warm cache, over diffrax's", 0.5, [ratio("warm", "first answer")], least=False),
        Demand("import and first answer, empty cache, over diffrax's", 1.5, [ratio("empty", "both")], least=False),
        Demand("import and first answer, warm cache, over diffrax's", 0.5, [ratio("warm", "both")], least=False),
    ]
    title = "the first answer of a process: SA, n = 16, d = 3, β = 4, t = 5, 100 saved states, rtol 1e-6, float64"
    return markdown(title, head, rows) + "\n\n" + demanded(demands)


def vocabulary(_: str) -> str:
    """Every attention and the deep random Transformer, by three libraries."""
    libraries = ("tokenfield", "numpy", "torch")
    found = alternate("vocabulary", "vocabulary", libraries, FEWER)
    lines, deep = [], []
    for name, ours in found["tokenfield"].items():
        peers = [found[library].get(name) for library in libraries[1:]]
        assert all(p is None or abs(p.check - ours.check) < 1e-6 * abs(ours.check) for p in peers), name
        ratios = ["" if p is None else f"{p.seconds / ours.seconds:.2f}" for p in peers]
        (deep if name == "layers" else lines).append([name, f"{1e3 * ours.seconds:.1f}", *ratios])
    head = ["", "tokenfield, ms", "numpy / tokenfield", "torch / tokenfield"]
    first = markdown("one field of every attention, n = 2048, d = 64, float64", head, lines)
    title = "100 layers of a random Transformer, d = 512, n = 256, Post-LN, new Q, K, V per layer, float64"
    return first + "\n\n" + markdown(title, head, deep)


def on_spheres(case: str) -> str:
    """The circle and the sphere: fast sums beside dense ones."""
    found = alternate("sums", case, sums.CONTENDERS, FEWER)
    plots.sums(case, found)
    place = "the circle" if case == "circle" else "S²"
    return "\n\n".join(
        [
            _fast_table(f"velocities on {place} in O(n), float64, uniformly random tokens", case, found),
            _rival_table(case, found),
            demanded(_demands(case, found)),
            f"![Time against n on {place}](images/{case}.png)",
        ]
    )


def _seconds(found: dict, contender: str, s: sums.Sum) -> float | None:
    """Transforms alone are the same for both models."""
    one = found[contender].get(s._replace(model="sa").key if contender == "jax_finufft" else s.key)
    return None if one is None else one.seconds


def _ratio(found: dict, above: str, below: str, s: sums.Sum) -> float | None:
    one, other = _seconds(found, above, s), _seconds(found, below, s)
    return None if one is None or other is None else one / other


def _growth(found: dict, contender: str, case: str, model: str, β: float) -> float:
    """The fitted exponent over all sizes."""
    return slope(list(sums.SIZES), [_seconds(found, contender, sums.Sum(case, model, β, n)) for n in sums.SIZES])


def _number(value: float | None, form: str = ".3g") -> str:
    return "" if value is None else format(value, form)


def _fast_table(title: str, case: str, found: dict) -> str:
    sizes = [f"{n:,}" for n in sums.SIZES]
    head = ["", *(f"n = {n}, ms" for n in sizes), "growth", *(f"dense / tokenfield, {n}" for n in sizes[:2])]
    peers = ("ducc0", "jax_finufft")
    head += [*(f"tokenfield / {peer}, {n}" for peer in peers for n in sizes), "largest error"]
    rows = []
    for model in sums.MODELS:
        for β in sums.BETAS:
            line = [sums.Sum(case, model, β, n) for n in sums.SIZES]
            rows.append(
                [
                    f"{model.upper()}, β = {β:g}",
                    *(_number(1e3 * _seconds(found, "tokenfield", s)) for s in line),
                    f"n^{_growth(found, 'tokenfield', case, model, β):.2f}",
                    *(_number(_ratio(found, "dense", "tokenfield", s)) for s in line[:2]),
                    *(_number(_ratio(found, "tokenfield", peer, s)) for peer in peers for s in line),
                    f"{max(found['tokenfield'][s.key].error for s in line):.1e}",
                ]
            )
    return markdown(title, head, rows)


def _rival_table(case: str, found: dict) -> str:
    """All contenders at one β, since the time of the plain ones does not depend on it."""
    line = [sums.Sum(case, model, sums.TYPICAL, n) for model in sums.MODELS for n in sums.SIZES[:2]]
    head = [f"β = {sums.TYPICAL:g}", *(f"{s.model.upper()}, n = {s.n:,}, ms" for s in line), "note"]
    rows = []
    for name, settings in found.items():
        known = [settings[s.key] for s in line if s.key in settings]
        note = known[-1].note if known else "could not run on this machine"
        seconds = [_seconds(found, name, s) for s in line]
        rows.append([name, *("" if t is None else f"{1e3 * t:.3g}" for t in seconds), note])
    return markdown("", head, rows)


def _demands(case: str, found: dict) -> list[Demand]:
    every = [sums.Sum(case, model, β, n) for model in sums.MODELS for β in sums.BETAS for n in sums.SIZES]
    bounds = SUMS[case]
    known = lambda values: [value for value in values if value is not None]
    ratios = lambda n: known(_ratio(found, "dense", "tokenfield", s) for s in every if s.n == n)
    demands = [
        Demand("dense / tokenfield at n = 10,000", bounds["few"], ratios(10_000)),
        Demand("dense / tokenfield at n = 100,000", bounds["many"], ratios(100_000)),
        Demand(
            "exponent of growth",
            1.2,
            [_growth(found, "tokenfield", case, model, β) for model in sums.MODELS for β in sums.BETAS],
            least=False,
        ),
        Demand("error of a velocity", 1e-9, [found["tokenfield"][s.key].error for s in every], least=False),
    ]
    large = [s for s in every if s.n >= 100_000]
    for peer in ("ducc0", "jax_finufft"):
        if bounds[peer]:
            beside = known(_ratio(found, "tokenfield", peer, s) for s in large)
            demands.append(Demand(f"tokenfield / {peer} from n = 100,000 on", bounds[peer], beside, least=False))
    return demands


def dense(case: str) -> str:
    found = alternate("pairs", case, pairs.CONTENDERS, FEWER)
    tokens = 10_000 if SMALL else 100_000
    grown = in_process("pairs", "memory", str(tokens))["megabytes"]
    tables = [
        _side_by_side(
            f"one SA velocity by a dense sum, {shape}, β = {pairs.BETA:g}, float64",
            {name: one.get(shape) for name, one in found.items() if shape in one or (d == 3 and not one)},
        )
        for shape, (_, d) in pairs.SHAPES.items()
    ]
    small, *wide = pairs.SHAPES
    ratio = lambda name, shape: found[name][shape].seconds / found["tokenfield"][shape].seconds
    demands = [
        Demand("textbook numpy / tokenfield, d = 3", 6, [ratio("numpy", small)]),
        Demand("torch SDPA / tokenfield, d = 3", 1, [ratio("torch_sdpa", small)]),
        Demand(
            "tokenfield / torch SDPA, d = 128 and 1024", 1.0, [1 / ratio("torch_sdpa", s) for s in wide], least=False
        ),
        Demand(f"megabytes beyond those resident, n = {tokens:,}", 200, [grown], least=False),
    ]
    return "\n\n".join([*tables, demanded(demands)])


def span(case: str) -> str:
    found = alternate("many", case, many.CONTENDERS[case], ROUNDS)
    rows, ratios = [], {}
    for what, ours in found["span"].items():
        theirs = found["dense"][what]
        ratios[what] = theirs.seconds / ours.seconds
        note = f"{ours.note} in the span, {theirs.note} without"
        rows.append([what, f"{1e3 * ours.seconds:.3g}", f"{1e3 * theirs.seconds:.3g}", f"{ratios[what]:.1f}", note])
    title = "{n} tokens in R^{d}, SA at β = {beta:g}, float64".format(**many.SPAN)
    table = markdown(title, ["", "span, ms", "dense, ms", "dense / span", "note"], rows)
    return f"{table}\n\n{demanded([Demand('dense / span of the right-hand side', 15, [ratios['right-hand side']])])}"


def ensemble(case: str) -> str:
    found = alternate("many", case, many.CONTENDERS[case], FEWER)
    step = "one RK4 step"
    title = f"{step} of {many.MEMBERS:,} members, n = {many.N}, d = {many.D}, SA at β = 1, float64"
    line = {name: settings[step] for name, settings in found.items()}
    demands = [
        Demand(f"{name} / tokenfield", 4, [line[name].seconds / line["tokenfield"].seconds])
        for name in ("numpy", "torch")
    ]
    return f"{_side_by_side(title, line)}\n\n{demanded(demands)}"


def circles(case: str) -> str:
    """An ensemble on the circle, by fast sums and by dense ones."""
    found = alternate("many", case, many.CONTENDERS[case], FEWER)
    what = "evolve"
    line = {name: settings[what] for name, settings in found.items()}
    title = f"{many.MEMBERS:,} members on the circle, n = {many.CIRCLE_N}, SA at β = 9, t = {many.CIRCLE_T:g}, float64"
    ratio = line["dense"].seconds / line["circle"].seconds
    return f"{_side_by_side(title, line, ours='circle')}\n\n{demanded([Demand('dense / circle', 5, [ratio])])}"


def phase_diagram(case: str) -> str:
    """A sample of the phase diagram in every dimension: CPU time per member, and errors of the probability."""
    with tempfile.TemporaryDirectory() as folder, one_core():
        os.environ["BENCHMARK_PHASE"] = folder
        in_process("phase", case, "reference")
        found = alternate("phase", case, phase.CONTENDERS, 2)
    tables = []
    for d, starts in phase.STARTS.items():
        line = {name: settings[f"d = {d}"] for name, settings in found.items()}
        title = (
            f"the phase diagram of SA in R^{d}: {len(phase.BETAS)} β, {starts} starts, 200 times, CPU time of a member"
        )
        tables.append(_side_by_side(title, line, ours="tokenfield_loose"))
    dimensions = [d for d in phase.DEMANDS if d in phase.STARTS]
    ratio = lambda theirs, ours, d: found[theirs][f"d = {d}"].seconds / found[ours][f"d = {d}"].seconds
    demands = [
        Demand(f"torch_euler / tokenfield_loose, d = {d}", bound, [ratio("torch_euler", "tokenfield_loose", d)])
        for d, bound in phase.DEMANDS.items()
        if d in dimensions
    ]
    for peer in ("torchdiffeq", "scipy"):
        for end in ("_loose", ""):
            for d in phase.STARTS:
                one = ratio(peer + end, "tokenfield" + end, d)
                demands.append(Demand(f"{peer}{end} / tokenfield{end}, d = {d}", 10, [one]))
    less = [found["tokenfield_loose"][f"d = {d}"].error / found["torch_euler"][f"d = {d}"].error for d in phase.STARTS]
    demands.append(Demand("error of tokenfield_loose / torch_euler's", 1, less, least=False))
    return "\n\n".join([*tables, demanded(demands)])


def sweep(case: str) -> str:
    """A sweep beside its bare ensembles, and what it needs of memory along the way."""
    in_process("sweeping", case, "warm")
    found = alternate("sweeping", case, sweeping.CONTENDERS, FEWER)
    bare, one, two = found.values()
    assert all(abs(line["whole"].check - bare["whole"].check) < 1e-9 for line in (one, two)), "all run the same members"
    members = len(sweeping.BETAS) * len(sweeping.SEEDS)
    parts = ("whole", "first group", "CPU")
    rows = [
        [name, *(f"{line[part].seconds:.2f}" for part in parts), f"{1e3 * _later(line) / members:.3f}"]
        for name, line in found.items()
    ]
    title = f"a sweep of {members:,} members, n = {sweeping.N}, d = {sweeping.D}, 16 β, t = {sweeping.T:g}, 21 times"
    table = markdown(title, ["", *(f"{part}, s" for part in parts), "after the first, ms a member"], rows)
    memory = {name: json.loads(line["whole"].note) for name, line in found.items() if name != "evolve"}
    lines = [
        [f"{name}: the {who}", *(f"{size:.0f}" for size in sizes)]
        for name, peaks in memory.items()
        for who, sizes in peaks.items()
    ]
    sizes = markdown("", ["peak, megabytes", *(f"{share:.0%} of the members" for share in sweeping.LOOKS)], lines)
    grown = [sizes[-1] / sizes[0] for peaks in memory.values() for sizes in peaks.values()]
    ratio = lambda part: one[part].seconds / bare[part].seconds
    demands = [
        Demand("one worker / two workers", 1.6, [one["whole"].seconds / two["whole"].seconds]),
        Demand("one worker / evolve", 1.1, [ratio("whole")], least=False),
        Demand("one worker / evolve, CPU time", 1.1, [ratio("CPU")], least=False),
        Demand("one worker / evolve, after the first group", 1.1, [_later(one) / _later(bare)], least=False),
        Demand("memory at 100% / at 10% of the members", 1.1, grown, least=False),
    ]
    return "\n\n".join([table, sizes, demanded(demands)])


def _later(line: dict) -> float:
    return line["whole"].seconds - line["first group"].seconds


def scaling(case: str) -> str:
    found = alternate("sums", case, sums.CONTENDERS, 2)
    plots.scaling(found)
    rows = []
    for name, settings in found.items():
        times = {place: plots.curve(settings, place, "sa", sums.TYPICAL) for place in ("circle", "sphere")}
        rows.append([name, *(f"n^{slope(*plots.tail(*times[p])):.2f}" if times[p][0] else "" for p in times)])
    table = markdown(
        f"growth of one SA velocity, β = {sums.TYPICAL:g}, fitted from n = 10,000 on (else to all)",
        ["", "circle", "S²"],
        rows,
    )
    return f"{table}\n\n![One SA velocity against n](images/scaling.png)"


def causal(case: str) -> str:
    """Causal sums by halves beside dense causal sums."""
    found = alternate("causal", case, halves.CONTENDERS, FEWER)
    ours, dense = found["tokenfield"], found["dense"]
    head = ["", *(f"n = {n:,}, ms" for n in halves.SIZES), "growth", "largest error"]
    head += [f"dense / tokenfield, {n:,}" for n in halves.SIZES if n <= halves.FURTHEST["dense"]]
    rows, demands = [], []
    for space in halves.CASES:
        keys = [f"{space} {n}" for n in halves.SIZES]
        growth, error = (
            slope(list(halves.SIZES), [ours[key].seconds for key in keys]),
            max(ours[key].error for key in keys),
        )
        ratios = [dense[key].seconds / ours[key].seconds for key in keys if key in dense]
        times = [f"{1e3 * ours[key].seconds:.3g}" for key in keys]
        rows.append([space, *times, f"n^{growth:.2f}", f"{error:.1e}", *(f"{ratio:.3g}" for ratio in ratios)])
        if space == "circle":
            demands.append(Demand("circle: dense / tokenfield at n = 100,000", 20, ratios[-1:]))
        demands += [
            Demand(f"{space}: exponent of growth", 1.2, [growth], least=False),
            Demand(f"{space}: error of a velocity", 1e-9, [error], least=False),
        ]
    title = f"causal velocities in O(n log n), SA at β = {halves.BETA:g}, float64, uniformly random tokens; windows are a tenth"
    return "\n\n".join([markdown(title, head, rows), demanded(demands)])


def sinkhorn(case: str) -> str:
    """Fields of Sinkhorn attention to one marginal tolerance, and in O(n) on the circle."""
    found = alternate("sinkhorn", case, balanced.CONTENDERS, FEWER)
    ours, rows = found["tokenfield"], []
    for name in balanced.cases():
        peers = [found[library][name] for library in balanced.CONTENDERS[1:]]
        solved = [peer for peer in peers if peer.check is not None]
        assert all(abs(peer.check - ours[name].check) < 1e-6 * abs(peer.check) for peer in solved), name
        ratios = [peer.note if peer.check is None else f"{peer.seconds / ours[name].seconds:.2f}" for peer in peers]
        line = [f"{1e3 * ours[name].seconds:.1f}", f"{ours[name].error:.1e}", ours[name].note, peers[0].note, *ratios]
        rows.append([name, *line])
    head = ["", "tokenfield, ms", "error", "rounds", "numpy's", "numpy / tokenfield", "torch / tokenfield"]
    title = f"a field of Sinkhorn attention, d = {balanced.D}, n = {balanced.N} (from β = 10 on {balanced.FEW}), marginals to 1e-9"
    times = ours["circle"].seconds, ours["circle, softmax"].seconds
    lines = [["Sinkhorn, to 1e-11", f"{1e3 * times[0]:.1f}"], ["softmax", f"{1e3 * times[1]:.1f}"]]
    second = markdown(f"a field on the circle, n = {balanced.MANY:,}, β = 9, float64", ["", "ms"], lines)
    easy = [
        found[library][name].seconds / ours[name].seconds for library in ("numpy", "torch") for name in balanced.EASY
    ]
    hard = [float(ours[name].note.split()[0]) for name in balanced.HARD]
    demands = [
        Demand(f"numpy and torch / tokenfield, n = {balanced.N}", 1.0, easy),
        Demand(f"rounds at β = 10 to 1000, n = {balanced.FEW}", 200, hard, least=False),
        Demand("error of a marginal", 1e-9, [ours[name].error for name in balanced.cases()], least=False),
        Demand("Sinkhorn / softmax on the circle", 50, [times[0] / times[1]], least=False),
    ]
    return "\n\n".join([markdown(title, head, rows), second, demanded(demands)])


def trained(case: str) -> str:
    """MiniLM and SmolLM2, by tokenfield and by transformers on torch."""
    found = alternate("models", case, models.CONTENDERS, ROUNDS)
    titles = {
        "forward": f"a forward pass of MiniLM on {models.BATCH} × {models.LENGTH} tokens, float32",
        "generate": f"a token of SmolLM2-135M, {models.NEW} greedy ones after {len(models.PROMPT)}, float32",
    }
    tables, demands = [], []
    for setting, title in titles.items():
        line = {name: one[setting] for name, one in found.items()}
        ours, theirs = line["tokenfield"], line["torch"]
        assert abs(ours.check - theirs.check) < 1e-4 * theirs.check, f"{setting}: both have the same weights"
        tables.append(_side_by_side(title, line))
        demands.append(Demand(f"tokenfield / torch, {setting}", 1.3, [ours.seconds / theirs.seconds], least=False))
    return "\n\n".join([*tables, demanded(demands)])


def live_page(case: str) -> str:
    """The live page beside viser, in a real browser."""
    found = alternate("page", case, page.CONTENDERS, FEWER)
    head = ["", *(f"{name}, n = {n:,}" for n in page.SIZES for name in ("frames / s", "slider to frame, ms"))]
    rows = []
    for name, one in found.items():
        if one:
            parts = [(1 / one[f"frame, n = {n}"].seconds, 1e3 * one[f"slider, n = {n}"].seconds) for n in page.SIZES]
            rows.append([name, *(f"{value:.0f}" for pair in parts for value in pair)])
    ours = found["tokenfield"]
    least = {2_000: 30, 10_000: 15}
    demands = [
        Demand(f"frames a second, n = {n:,}", least[n], [1 / ours[f"frame, n = {n}"].seconds])
        for n in page.SIZES
        if n in least
    ]
    waits = [1e3 * ours[f"slider, n = {n}"].seconds for n in page.SIZES]
    demands.append(Demand("slider to a changed frame, ms", 150, waits, least=False))
    title = "the live page: SA on S², β = 9, headless Chromium with software graphics"
    return markdown(title, head, rows) + "\n\n" + demanded(demands)


REPORTS = {
    "cold": cold,
    **dict.fromkeys(CASES, solves),
    "vocabulary": vocabulary,
    "circle": on_spheres,
    "sphere": on_spheres,
    "dense": dense,
    "span": span,
    "ensemble": ensemble,
    "circles": circles,
    "phase": phase_diagram,
    "causal": causal,
    "sinkhorn": sinkhorn,
    "models": trained,
    "sweep": sweep,
    "scaling": scaling,
    "page": live_page,
}
