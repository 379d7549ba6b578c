"""The statements of the literature, one file per paper. They speak to the library through its public names alone, as a
conjecture of your own would, and those load when a statement is checked: listing them needs no JAX."""

from tokenfield.theory.base import Statement
from tokenfield.theory.statements import (
    agarwal2024,
    balasubramanian2025,
    bertini2010,
    bruno2025,
    bruno2025b,
    castin2024,
    castin2025,
    chen2025,
    chen2025b,
    chen2026,
    delarue2025,
    geshkovski2023,
    geshkovski2024,
    geshkovski2024modes,
    geshkovski2025,
    karagodin2024,
    karagodin2025,
    rigollet2025,
    sander2022,
    shalova2024,
    stein2025,
    sznitman1991,
)

PAPERS = (
    geshkovski2023,
    stein2025,
    geshkovski2025,
    chen2025,
    chen2025b,
    geshkovski2024,
    geshkovski2024modes,
    karagodin2024,
    bruno2025,
    bruno2025b,
    karagodin2025,
    chen2026,
    rigollet2025,
    shalova2024,
    bertini2010,
    balasubramanian2025,
    sznitman1991,
    delarue2025,
    castin2025,
    castin2024,
    agarwal2024,
    sander2022,
)

STATEMENTS: dict[str, Statement] = {one.name: one for paper in PAPERS for one in paper.STATEMENTS}
"""All of them, by name."""
