"""The public names of the theory, each in one place."""

from .base import Finding as Finding
from .base import Outcome as Outcome
from .base import Statement as Statement
from .base import Verdict as Verdict
from .equiangular import collapse_exponent as collapse_exponent
from .equiangular import initial_speed as initial_speed
from .equiangular import long_context as long_context
from .equiangular import output as output
from .gaussian import ClosedForm as ClosedForm
from .gaussian import closed_form as closed_form
from .linear import bifurcation_kappas as bifurcation_kappas
from .linear import critical_kappa as critical_kappa
from .linear import growth_rates as growth_rates
from .linear import most_unstable as most_unstable
from .lipschitz import adversarial as adversarial
from .lipschitz import lipschitz_lower as lipschitz_lower
from .lipschitz import lipschitz_upper as lipschitz_upper
from .report import Report as Report
from .verification import statement as statement
from .verification import verify as verify

__all__: list[str]
