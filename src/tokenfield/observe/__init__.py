"""Functions of a measure or of a trajectory: of one state they give one value, of a run one value per saved time.

>>> import tokenfield as tkf
>>> run = tkf.evolve(tkf.usa(beta=1.0), tkf.Tokens.orthonormal(8), t=3.0, save=4)
>>> tkf.observe.mean_overlap(run).shape, tkf.observe.energy(run, beta=1.0).shape
((4,), (4,))
"""

from tokenfield.observe.causal import Centres as Centres
from tokenfield.observe.causal import renyi_centres as renyi_centres
from tokenfield.observe.clustering import Clusters as Clusters
from tokenfield.observe.clustering import clusters as clusters
from tokenfield.observe.energies import energy as energy
from tokenfield.observe.energies import entropy as entropy
from tokenfield.observe.energies import free_energy as free_energy
from tokenfield.observe.geometry import Hemisphere as Hemisphere
from tokenfield.observe.geometry import hemisphere as hemisphere
from tokenfield.observe.geometry import numerical_rank as numerical_rank
from tokenfield.observe.geometry import support_radius as support_radius
from tokenfield.observe.history import History as History
from tokenfield.observe.history import Life as Life
from tokenfield.observe.history import history as history
from tokenfield.observe.limits import LimitGeometry as LimitGeometry
from tokenfield.observe.limits import limit_geometry as limit_geometry
from tokenfield.observe.matrices import AttentionEntropy as AttentionEntropy
from tokenfield.observe.matrices import Leaders as Leaders
from tokenfield.observe.matrices import attention_entropy as attention_entropy
from tokenfield.observe.matrices import attention_matrix as attention_matrix
from tokenfield.observe.matrices import effective_rank as effective_rank
from tokenfield.observe.matrices import leaders as leaders
from tokenfield.observe.modes import Modes as Modes
from tokenfield.observe.modes import modes as modes
from tokenfield.observe.names import observable as observable
from tokenfield.observe.overlap import fraction_close as fraction_close
from tokenfield.observe.overlap import mean_overlap as mean_overlap
from tokenfield.observe.overlap import order_parameter as order_parameter
from tokenfield.observe.overlap import overlap_histogram as overlap_histogram
from tokenfield.observe.overlap import overlaps as overlaps
from tokenfield.observe.rates import Rate as Rate
from tokenfield.observe.rates import fit_rate as fit_rate
from tokenfield.observe.sensitivity import Sensitivity as Sensitivity
from tokenfield.observe.sensitivity import flow_lipschitz as flow_lipschitz
from tokenfield.observe.sensitivity import lipschitz as lipschitz
from tokenfield.observe.transport import wasserstein as wasserstein
