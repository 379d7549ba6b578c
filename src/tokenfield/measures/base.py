"""What a measure is: the state that a flow moves."""

import equinox as eqx


class AbstractMeasure(eqx.Module):
    """A probability measure that a Flow can act on. Every kind is a pytree: it jits, vmaps and differentiates."""
