"""The `tokenfield` command. Nothing here loads JAX until there is something to compute."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tokenfield import _interrupt
from tokenfield._files import whole
from tokenfield.errors import InputError

app = typer.Typer(
    name="tokenfield",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

SETTING = "Override a field of the spec; may be repeated. Lists with one value per layer belong in the spec itself."
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the results, run.zarr, run.png and run.toml.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the results that are in the folder from before.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="FIELD=VALUE",
        help=SETTING,
    ),
]


@app.callback(
    epilog="Start here:  `tokenfield demo`  or  `tokenfield new > spec.toml`  and  "
    "`tokenfield run spec.toml --out out/mine`"
)
def tokenfield() -> None:
    """A laboratory for the mean-field dynamics of Transformers: tokens are particles, attention is their field, depth
    is time."""


@app.command(epilog="Example:  `tokenfield new > spec.toml`")
def new() -> None:
    """Print a commented spec to start from."""
    from tokenfield.spec.template import TEMPLATE

    typer.echo(TEMPLATE, nl=False)


@app.command(
    epilog="Examples:  `tokenfield run spec.toml --out out/mine`   "
    "`tokenfield run spec.toml -o out/hot --set flow.attention.beta=4 --set time.end=50`"
)
def run(
    spec: Annotated[Path, typer.Argument(help="A TOML file; `tokenfield new` prints one.", metavar="SPEC")],
    out: Out,
    overrides: Set = None,
    force: Force = False,
) -> None:
    """Run a spec; write the data (run.zarr), the picture (run.png), and the spec with every default filled in (run.toml).

    The spec itself is never written to. Ctrl-C, or SIGTERM, stops the run and saves what was computed; once more quits at once.
    """
    from tokenfield.spec import Spec

    loaded = Spec.load(spec, overrides or ())
    _prepare(out, force, spec)
    _write(loaded.run(), loaded, out)


@app.command(
    epilog="Examples:  `tokenfield show out/mine`   `tokenfield show grid.zarr`   `tokenfield show out/figures/sphere`"
)
def show(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A folder that `run`, `demo`, `sweep`, `figure` or `probe` wrote, or a saved run.",
            metavar="DIR",
        ),
    ],
) -> None:
    """Tell the story of a run, a sweep, a figure or a probe, and draw its picture anew. Nothing is computed."""
    from tokenfield.showing import shown

    heard = _interrupt.command()
    for words in shown(folder):
        typer.echo(words)
        heard.patient = True  # a picture is drawn whole
    raise typer.Exit(heard.code)


@app.command(
    epilog="Examples:  `tokenfield play`   `tokenfield play spec.toml --set flow.attention.beta=4`   "
    "`tokenfield play --port 8080 --no-browser`"
)
def play(
    spec: Annotated[
        Path | None,
        typer.Argument(
            help="The experiment to begin with, a TOML file; 500 tokens on the sphere when left out.", metavar="[SPEC]"
        ),
    ] = None,
    overrides: Set = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; any that is free when left out.")
    ] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open the page.")] = True,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Keep what the page downloads here as well. Without it nothing is written.",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", help="Listen to others on the network, too; only together with --unsafe-network."),
    ] = None,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe-network",
            help="Say that --host is meant: whoever knows the address, which then holds a token, can steer the page.",
        ),
    ] = False,
) -> None:
    """Open a page on which every model moves: turn β, drag tokens, watch clusters let go.

    Every attention, normalization and measure, by the library's own solvers; plots to choose, published examples, a link to
    every experiment, downloads of spec, picture, film and data. The page is on this machine alone; Ctrl-C closes it.
    """
    from tokenfield.lab import front

    front.command(spec, overrides or [], port, browser, out, (host, unsafe))


@app.command(epilog="Example:  `tokenfield demo --out out/demo`")
def demo(out: Out = Path("out/demo"), force: Force = False) -> None:
    """Watch 1,000 tokens on the sphere cluster under self-attention, and merge."""
    from tokenfield.demo import SPEC, Narrator
    from tokenfield.spec import Spec

    _prepare(out, force)
    loaded = Spec.from_dict(SPEC)
    narrator = Narrator()
    typer.echo(narrator.opening)
    _write(loaded.run(watch=narrator), loaded, out)


@app.command(
    epilog="Examples:  `tokenfield verify --list`   `tokenfield verify hemisphere-rate staircase`   "
    "`tokenfield verify --small --plots out/theory`"
)
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Statements, by name; all when left out.", metavar="[NAME]...")
    ] = None,
    small: Annotated[bool, typer.Option("--small", help="Small cases, a few seconds each.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the statements, and check nothing.")] = False,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all verdicts, with their derivations, as JSON.")
    ] = None,
    plots: Annotated[
        Path | None, typer.Option("--plots", metavar="DIR", help="Draw those that are better seen.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE", help="Write a page with all statements and verdicts, in Markdown."),
    ] = None,
) -> None:
    """Check statements of the literature, theorems and conjectures, against runs: what each predicts, what was measured, and
    whether it holds. The exit code is 1 when one fails."""
    from tokenfield.theory import page as pages

    if listed:
        typer.echo(pages.listing())
        return
    from tokenfield.theory import verification
    from tokenfield.theory.report import head, row

    for path in (as_json, page):
        _refuse_unwritable(path)
    typer.echo(head())
    report = verification.verify(
        names or "all", small=small, plots=plots, watch=lambda verdict: typer.echo(row(verdict))
    )
    typer.echo(report.summary)
    for verdict in report.failed:
        typer.echo(f"\n{verdict}")
    seen = None if page is None or plots is None else os.path.relpath(plots, page.parent)
    for path, text in ((as_json, report.to_json), (page, lambda: pages.page(report, small, seen))):
        if path is not None:
            with whole(path) as part:
                part.write_text(text(), encoding="utf-8")
    raise typer.Exit(_interrupt.command().code or int(len(report.failed) > 0))


def _refuse_unwritable(path: Path | None) -> None:
    """Refuse, before anything is computed, a file that could not be written afterwards."""
    if path is not None and (path.is_dir() or not os.access(path.absolute().parent, os.W_OK | os.X_OK)):
        raise InputError(
            f"The file {path} cannot be written: it is a folder, or stands in none that can be written to."
        )


@app.command(
    epilog="Examples:  `tokenfield figure --list`   `tokenfield figure sphere --small`   "
    "`tokenfield figure phase-diagram --set d=8 --out out/phase8`   `tokenfield figure all --small`"
)
def figure(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Figures, by name; `all` of them; or a file.py with a figure of your own.", metavar="[NAME]..."
        ),
    ] = None,
    small: Annotated[bool, typer.Option("--small", help="The small size, a few seconds each.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="The folder; out/figures/NAME when left out. Of several, that of their folders.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="FIELD=VALUE", help="Change a parameter of the figure; may be repeated."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the figures: name, source, measured durations.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a figure in the folder, whatever its parameters.")
    ] = False,
) -> None:
    """Make published figures: the picture (PNG and PDF), the data, what it claims with verdicts, and a README.

    A folder that has the figure already is drawn again, and nothing is computed. Stopped, the same command goes on from the parts
    that were computed. The exit code is 1 when a claim is not met.
    """
    from tokenfield.figures import command

    if listed:
        typer.echo(command.listing())
        return
    if not names:
        raise InputError("Which figure? `tokenfield figure --list` names all of them, and `all` makes them.")
    failed = False
    for words, good in command.made(names, small, out, settings or [], force):
        typer.echo(words)
        failed = failed or not good
    raise typer.Exit(_interrupt.command().code or int(failed))


@app.command(
    epilog="Example:  `tokenfield sweep spec.toml --over flow.attention.beta=linspace:0.1:9:90 --over measure.seed=range:0:2048 "
    "--observe mean_overlap,clusters --out grid.zarr`"
)
def sweep(
    spec: Annotated[Path, typer.Argument(help="A TOML file; `tokenfield new` prints one.", metavar="SPEC")],
    over: Annotated[
        list[str],
        typer.Option(
            "--over",
            metavar="FIELD=VALUES",
            help="A field of the spec and its values: linspace:FIRST:LAST:COUNT, geomspace:..., range:FIRST:END, or 1,2,5; may be "
            "repeated: all combinations are run.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="GRID.zarr", help="Folder for results, which xarray opens.")
    ],
    observe: Annotated[
        str,
        typer.Option("--observe", metavar="NAMES", help="Observables to keep, such as mean_overlap,clusters."),
    ] = "",
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="states", help="Keep the states themselves, too.")
    ] = None,
    overrides: Set = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=0, help="Processes that compute; as many as cores when left out, 0 for this one alone."
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="tcp://HOST:PORT", help="A Dask cluster that is there, instead."),
    ] = None,
) -> None:
    """Run a spec for every combination of parameters, on Dask; results are kept as they finish.

    Stopped in whatever way, the same command goes on, and computes nothing twice; results do not depend on the number of workers,
    to the last bit. Members that blow up or are refused are recorded, and stop nothing. `tokenfield show` tells and draws it.
    """
    from tokenfield.sweeps import command
    from tokenfield.sweeps.worker import one_thread

    if workers == 0:  # as a worker does, to the last bit; JAX has not started yet
        os.environ.update(one_thread())
    folder, plan = command.begun(spec, overrides or [], over, observe, keep, out)
    words, whole = command.swept(folder, plan, workers, scheduler, lambda words: typer.echo(words, err=True))
    typer.echo(words)
    raise typer.Exit(_interrupt.command().code or int(not whole))


@app.command(epilog="Example:  `tokenfield report out/figures grid.zarr --out report.html`")
def report(
    sources: Annotated[
        list[Path], typer.Argument(help="Folders of figures, sweeps and runs, or folders of these.", metavar="DIR...")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is no report.")] = False,
) -> None:
    """Put figures, claims, verdicts, provenance and how to repeat them on one HTML page that opens offline.

    The exit code is 1 when a claim on it is not met.
    """
    from tokenfield.report import report as written

    path, good = written(sources, out, force)
    typer.echo(f"report: {path}")
    raise typer.Exit(int(not good))


@app.command(
    epilog="Examples:  `tokenfield train --out out/model`   `tokenfield train book.txt --out out/book --set train.steps=3000`   "
    "`tokenfield train --out out/sinkhorn --set model.attention.kind=sinkhorn`"
)
def train(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the model and its checkpoints.")],
    text: Annotated[
        Path | None,
        typer.Argument(help="A text file; the language reference that Python carries when left out.", metavar="[TEXT]"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="FIELD=VALUE",
            help="Change the model (model.d, model.layers, model.attention.kind, ...) or the training (train.steps, train.lr, "
            "train.minutes, ...); may be repeated.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Begin anew, whatever the folder's training was.")] = False,
) -> None:
    """Train a Transformer to predict the next token of a text; a few minutes to a model that writes words.

    The folder has the model, checkpoints and the picture of its losses. Stopped in whatever way, the same command goes on from the
    last checkpoint, to the same weights, bit for bit. The exit code is 1 when the training diverged.
    """
    from tokenfield.transformer.training import command

    result = command.trained(text, out, settings or [], force, lambda words: typer.echo(words, err=True))
    typer.echo(str(result))
    raise typer.Exit(_interrupt.command().code or int(not result.ok))


@app.command(epilog='Example:  `tokenfield generate out/model "The function" -n 300 --temperature 0.7`')
def generate(
    model: Annotated[
        Path, typer.Argument(help="What `train` wrote, a folder or GGUF file of weights, or smollm2.", metavar="MODEL")
    ],
    prompt: Annotated[str, typer.Argument(help="How the text begins.", metavar="PROMPT")],
    n: Annotated[int, typer.Option("-n", min=1, help="How many tokens are added.")] = 200,
    temperature: Annotated[
        float,
        typer.Option("--temperature", "-t", min=0.0, help="0 takes the likeliest token, 1 draws as the model says."),
    ] = 0.7,
    seed: Annotated[int, typer.Option("--seed", help="What is drawn.")] = 0,
) -> None:
    """Go on with a text, token by token, as it comes."""
    from tokenfield.transformer.training import command

    write = lambda piece: typer.echo(piece, nl=False)
    begun = []

    def on(piece: str) -> None:
        if not begun:  # what is refused is refused before anything is written
            begun.append(True)
            write(prompt)
        write(piece)

    try:
        command.generated(model, prompt, n, temperature, seed, on)
    except _interrupt.Interrupted:
        typer.echo()
        raise typer.Exit(_interrupt.command().code) from None
    typer.echo()


@app.command(
    epilog="Examples:  `tokenfield probe minilm`   `tokenfield probe ./my-model --text mine.txt --out out/mine`   "
    "`tokenfield probe out/model --lipschitz 0`"
)
def probe(  # noqa: PLR0913
    model: Annotated[
        str,
        typer.Argument(
            help="A folder or GGUF file of trained weights, what `train` wrote, or minilm, rxnmapper or smollm2.",
            metavar="MODEL",
        ),
    ],
    text: Annotated[
        Path | None,
        typer.Option(
            "--text", metavar="FILE", help="Texts, with blank lines between them; paragraphs of English else."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="The folder; out/probe/NAME when left out.")
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", help="How many tokens of each text are taken; all, or 128 of embedded ones."),
    ] = None,
    lipschitz: Annotated[
        int, typer.Option("--lipschitz", min=0, help="Of how many blocks the Lipschitz constants are measured.")
    ] = 6,
    repeat: Annotated[
        int | None,
        typer.Option("--repeat", min=0, help="How often the first block is repeated; 400 where blocks are shared."),
    ] = None,
    angle: Annotated[float, typer.Option("--angle", help="The radius of a cluster, in radians.")] = 0.5,
    control: Annotated[
        str,
        typer.Option(
            "--control",
            metavar="KIND",
            help="Untrained weights: initial (before training) or own (drawn with the scale of every tensor).",
        ),
    ] = "initial",
    seed: Annotated[int, typer.Option("--seed", help="Of both controls.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a probe in the folder.")] = False,
) -> None:
    """See what a model does to tokens, layer by layer: do they gather, collapse, attend to sinks?

    Every number stands beside two controls, untrained weights and shuffled tokens, and beside what the theory says at the
    effective β of the model. Written are one HTML page, a picture and the data.
    """
    from tokenfield.transformer import commands

    options = {
        "tokens": tokens,
        "lipschitz": lipschitz,
        "repeat": repeat,
        "angle": angle,
        "control": control,
        "seed": seed,
    }
    for words in commands.probed(model, text, out, force, lambda words: typer.echo(words, err=True), **options):
        typer.echo(words)
    raise typer.Exit(_interrupt.command().code)


@app.command(
    epilog="Examples:  `tokenfield predict config.json --context 8192`   "
    "`tokenfield predict config.json --depth 48 --beta 6 --out out/told`"
)
def predict(
    config: Annotated[
        Path, typer.Argument(help="A config.json of the BERT, ALBERT, GPT-2 or LLaMA family.", metavar="CONFIG.json")
    ],
    context: Annotated[
        int | None, typer.Option("--context", help="How many tokens a text has; what the config says when left out.")
    ] = None,
    depth: Annotated[
        int | None, typer.Option("--depth", help="How many blocks; what the config says when left out.")
    ] = None,
    rho: Annotated[float, typer.Option("--rho", help="The cosine of two tokens at the start.")] = 0.1,
    beta: Annotated[
        float | None, typer.Option("--beta", help="The effective β; that of untrained weights when left out.")
    ] = None,
    step: Annotated[float, typer.Option("--step", help="How much of the field of attention a block adds.")] = 1.0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for the picture and the data.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a prediction in the folder.")] = False,
) -> None:
    """Say what the theory says of an architecture, without weights and in seconds: how fast tokens gather through depth under its
    normalization and under the others, and what its context length does."""
    from tokenfield.transformer import commands

    asked = {"context": context, "depth": depth, "rho": rho, "beta": beta, "step": step}
    for words in commands.predicted(config, asked, out, force):
        typer.echo(words)


DATA, FILLED, DRAWN = "run.zarr", "run.toml", ("run.png", "run.mp4", "run.gif")
"""What is written to a folder: the data, the spec with every default filled in, pictures and movies."""


def _prepare(out: Path, force: bool, spec: Path | None = None) -> None:
    """Make the folder, before anything is computed, and see that nothing of the user's would be overwritten in it."""
    from tokenfield.store import places

    try:
        out.mkdir(parents=True, exist_ok=True)
        there = [name for name in (FILLED, *DRAWN) if os.path.lexists(out / name)]
        there = [DATA, *there] if places.standing(out.absolute() / DATA) else there
    except OSError as error:
        raise InputError(f"The folder {out} cannot be made: {error.strerror}. Choose another --out.") from None
    if not os.access(out, os.W_OK | os.X_OK):
        raise InputError(f"The folder {out} cannot be written to. Choose another --out.")
    if spec is not None and FILLED in there and (out / FILLED).samefile(spec):
        raise InputError(
            f"The spec is {spec}, which is where the spec with every default filled in would go; it is left as it is. Choose "
            "another --out, or another name for the spec."
        )
    if there and not force:
        raise InputError(
            f"The folder {out} holds {', '.join(there)} from before; nothing was overwritten. Choose another --out, or add "
            "--force to replace what is there."
        )


def _write(result: Any, spec: Any, out: Path) -> None:
    """The run's data and pictures to the folder, its story to the terminal."""
    heard = _interrupt.command()
    heard.patient = True
    result.save(out / DATA)
    with whole(out / FILLED) as part:
        part.write_text(spec.to_toml(), encoding="utf-8")
    for name in DRAWN:  # of another run
        (out / name).unlink(missing_ok=True)
    try:
        _interrupt.pause()
        typer.echo(str(result))
        typer.echo(f"data:    {out / DATA}")
        if spec.output.picture:
            _interrupt.pause()
            typer.echo(f"picture: {result.plot(out / 'run.png')}")
        if spec.output.animation:
            typer.echo(f"movie:   {result.animate(out / 'run.mp4')}")
        _interrupt.pause()
    except _interrupt.Interrupted:
        typer.echo(f"{result.message} It is saved in {out / DATA}; `tokenfield show {out}` draws it.", err=True)
        raise typer.Exit(heard.code) from None


def main() -> None:
    """The entry point: mistakes are reported in a sentence, without a traceback."""
    _interrupt.listen()
    try:
        app()
    except InputError as error:
        typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
        typer.echo(str(error), err=True)
        sys.exit(2)
    finally:
        _interrupt.command().done = True
