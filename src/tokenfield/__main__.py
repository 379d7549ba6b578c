"""`python -m tokenfield` is the `tokenfield` command."""

from tokenfield.cli import main

if __name__ == "__main__":
    main()
