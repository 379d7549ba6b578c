"""Training: a model and a text make a trained model, kept on the way.

- `texts`: what is learned from, and what is kept for validation
- `objectives`: what is predicted, and the windows of a step
- `learning`: one step as one program
- `checkpoints`: a training on disk
- `front`: `train`; `result`: what came of it
- `trigram`: what a model has to beat
"""

from tokenfield.transformer.training.front import train as train
from tokenfield.transformer.training.result import Training as Training
