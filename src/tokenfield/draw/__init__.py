"""Pictures and movies of runs, and pictures of measures."""

from tokenfield.draw.measures import picture_of as picture_of
from tokenfield.draw.movie import animation as animation
from tokenfield.draw.picture import picture as picture
