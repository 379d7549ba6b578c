"""Harmonics on spheres: bases of functions, and the eigenvalues of attention kernels on them."""

from tokenfield.harmonics.base import AbstractHarmonics as AbstractHarmonics
from tokenfield.harmonics.fourier import Fourier as Fourier
from tokenfield.harmonics.kernel import Eigenvalues as Eigenvalues
from tokenfield.harmonics.kernel import kernel_eigenvalues as kernel_eigenvalues
from tokenfield.harmonics.spherical import Spherical as Spherical
from tokenfield.harmonics.zonal import Zonal as Zonal
