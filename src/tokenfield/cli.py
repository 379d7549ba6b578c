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


@app.command(epilog="Example:  `tokenfield show out/mine`")
def show(
    folder: Annotated[Path, typer.Argument(help="A folder that `run` or `demo` wrote, or a saved run.", metavar="DIR")],
) -> None:
    """Tell the story of a run, and draw its picture anew."""
    from tokenfield.trajectory import Trajectory

    saved = folder if folder.suffix == ".zarr" else folder / "run.zarr"
    result = Trajectory.load(saved)
    typer.echo(str(result))
    heard = _interrupt.command()
    heard.patient = True  # a picture is drawn whole
    typer.echo(f"picture: {result.plot(saved.with_suffix('.png'))}")
    raise typer.Exit(heard.code)


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
