"""The live laboratory: a page, a notebook view, films, and small laboratories for the documentation.

Sessions know nothing of the web (`session`); frames and messages are plain data (`wire`); a server, a notebook and a file carry
them (`server`, `widget`, `film`). There is one front end, in `web`, which knows nothing of where frames come from.
"""

from tokenfield.lab.front import filmed as filmed
from tokenfield.lab.front import play as play
from tokenfield.lab.front import view as view
