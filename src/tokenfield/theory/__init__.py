"""Predictions that need no simulation, one file per subject.

>>> import tokenfield as tkf
>>> from tokenfield import theory
>>> round(theory.critical_kappa(tkf.kuramoto(), d=2), 12)
2.0
"""

from tokenfield.theory.equiangular import collapse_exponent as collapse_exponent
from tokenfield.theory.equiangular import initial_speed as initial_speed
from tokenfield.theory.equiangular import long_context as long_context
from tokenfield.theory.equiangular import output as output
from tokenfield.theory.gaussian import ClosedForm as ClosedForm
from tokenfield.theory.gaussian import closed_form as closed_form
from tokenfield.theory.lipschitz import adversarial as adversarial
from tokenfield.theory.lipschitz import lipschitz_lower as lipschitz_lower
from tokenfield.theory.lipschitz import lipschitz_upper as lipschitz_upper
from tokenfield.theory.noise import bifurcation_kappas as bifurcation_kappas
from tokenfield.theory.noise import critical_kappa as critical_kappa
from tokenfield.theory.noise import growth_rates as growth_rates
from tokenfield.theory.noise import most_unstable as most_unstable
