"""The `tokenfield` command. Nothing here loads JAX until there is something to compute."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tokenfield.errors import InputError

app = typer.Typer(
    name="tokenfield",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="FIELD=VALUE", help="Override a field of the spec; may be repeated."),
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
) -> None:
    """Run a spec; write the data (run.zarr), the picture, and the spec with every default filled in."""
    from tokenfield.spec import Spec

    loaded = Spec.load(spec, overrides or ())
    _make_folder(out)
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
    typer.echo(f"picture: {result.plot(saved.with_suffix('.png'))}")


@app.command(epilog="Example:  `tokenfield demo --out out/demo`")
def demo(out: Out = Path("out/demo")) -> None:
    """Watch 1,000 tokens on the sphere cluster under self-attention, and merge."""
    from tokenfield.demo import SPEC, Narrator
    from tokenfield.spec import Spec

    _make_folder(out)
    loaded = Spec.from_dict(SPEC)
    narrator = Narrator()
    typer.echo(narrator.opening)
    _write(loaded.run(watch=narrator), loaded, out)


def _make_folder(out: Path) -> None:
    """Before anything is computed."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {out} cannot be made: {error.strerror}. Choose another --out.") from None


def _write(result: Any, spec: Any, out: Path) -> None:
    """The run's data and pictures to the folder, its story to the terminal."""
    result.save(out / "run.zarr")
    typer.echo(str(result))
    (out / "spec.toml").write_text(spec.to_toml(), encoding="utf-8")
    typer.echo(f"data:    {out / 'run.zarr'}")
    if spec.output.picture:
        typer.echo(f"picture: {result.plot(out / 'run.png')}")
    if spec.output.animation:
        typer.echo(f"movie:   {result.animate(out / 'run.mp4')}")


def main() -> None:
    """The entry point: mistakes are told in a sentence, without a traceback."""
    try:
        app()
    except InputError as error:
        typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
        typer.echo(str(error), err=True)
        sys.exit(2)
