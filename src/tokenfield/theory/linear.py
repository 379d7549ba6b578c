"""Linear stability of the uniform measure, which `stationary` needs too and which therefore lives with it."""

from tokenfield.bifurcation.linear import bifurcation_kappas as bifurcation_kappas
from tokenfield.bifurcation.linear import critical_kappa as critical_kappa
from tokenfield.bifurcation.linear import growth_rates as growth_rates
from tokenfield.bifurcation.linear import most_unstable as most_unstable
