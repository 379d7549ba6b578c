"""Bruno, Pasqualotto and Agazzi, A multiscale analysis of mean-field Transformers in the moderate interaction regime: what is left
of attention at large β, for densities and for clusters."""

from __future__ import annotations

from tokenfield.theory.base import Statement
from tokenfield.theory.statements.bruno2025b import local, pairs

STATEMENTS: tuple[Statement, ...] = (pairs.ClosestPair(), local.BackwardHeat(), local.BackwardPorousMedium())
