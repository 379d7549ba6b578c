"""`python -m tokenfield` is the `tokenfield` command."""

from tokenfield import _interrupt


def main() -> None:
    """Listen for signals first; the rest takes time to load."""
    _interrupt.listen()
    from tokenfield import cli

    cli.main()


if __name__ == "__main__":
    main()
