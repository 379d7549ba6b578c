"""Pictures and movies of runs."""

from tokenfield.draw.movie import animation as animation
from tokenfield.draw.picture import picture as picture
