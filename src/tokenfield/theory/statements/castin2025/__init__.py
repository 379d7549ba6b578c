"""Castin, Ablin, Carrillo and Peyré, A unified perspective on the dynamics of deep Transformers: estimates and stability for
tokens in a ball, Gaussians, and what blows up."""

from __future__ import annotations

from tokenfield.theory.base import Statement
from tokenfield.theory.statements.castin2025 import covariances, estimates, gaussians, growth, stability

STATEMENTS: tuple[Statement, ...] = (
    stability.SupportBound(),
    estimates.FieldBound(),
    estimates.FieldSlope(),
    estimates.FieldStability(),
    stability.FlowStability(),
    stability.MaskedStability(),
    gaussians.GaussianMap(),
    gaussians.StaysGaussian(),
    covariances.ClosedForm(),
    covariances.LimitRank(),
    covariances.BlowUp(),
    covariances.RankOne(),
    covariances.NoBlowUp(),
    covariances.ThinKeys(),
    growth.SigmoidGlobal(),
    growth.FiniteTime(),
)
