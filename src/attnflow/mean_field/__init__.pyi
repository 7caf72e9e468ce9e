"""Public names of `attnflow.mean_field`; each is loaded on first use."""

from attnflow.mean_field.aggregation import aggregate as aggregate
from attnflow.mean_field.branches import branch as branch
from attnflow.mean_field.continuity_equation import evolve as evolve
from attnflow.mean_field.densities import box as box
from attnflow.mean_field.densities import normal as normal
from attnflow.mean_field.densities import uniform as uniform
from attnflow.mean_field.densities import von_mises as von_mises
from attnflow.mean_field.densities import von_mises_fisher as von_mises_fisher
from attnflow.mean_field.densities import zonal as zonal
from attnflow.mean_field.densities import zonal_wave as zonal_wave
from attnflow.mean_field.distances import distance as distance
from attnflow.mean_field.gaussian_laws import gaussian as gaussian
from attnflow.mean_field.kernel_estimate import kernel_modes as kernel_modes
from attnflow.mean_field.thresholds import critical_beta as critical_beta
from attnflow.mean_field.thresholds import critical_kappa as critical_kappa
