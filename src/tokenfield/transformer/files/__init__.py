"""Trained weights from files: Hugging Face folders, GGUF files, and folders that training wrote. Nothing in them is executed."""

from tokenfield.transformer.files.folders import loaded as loaded
from tokenfield.transformer.files.packages import installed as installed
