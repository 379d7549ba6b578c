"""Weights in pytorch_model.bin, through torch's reader of tensors alone (`weights_only`), where torch is installed."""

import os
import warnings
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tokenfield import _checks as check
from tokenfield.errors import StoreError, short
from tokenfield.transformer.files.plain import opened
from tokenfield.transformer.files.tensors import Tensor, Weights

RATHER = "Save the weights as model.safetensors, which needs no torch and holds nothing but numbers."


def read(path: Path) -> Weights:
    """The tensors of a file.

    **Arguments**

    - `path`: the file.

    **Returns** the tensors by name.

    **Raises** `StoreError` where torch is not installed, or the file holds anything but tensors by name.
    """
    try:
        import torch
    except ImportError:
        raise StoreError(
            f"{path} is read by torch alone, which is not installed: pip install torch. {RATHER}"
        ) from None
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        check.room(3 * size, f"The weights in {path}")
        _refuse_bombs(path, file, size)
        file.seek(0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # whatever a damaged or hostile file makes of its reader
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise StoreError(
                f"{path} does not hold tensors alone, or is damaged; nothing in it was executed: {short(reason, 160)}. {RATHER}"
            ) from None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise StoreError(f"{path} must hold tensors by name, but holds {short(type(found).__name__)}. {RATHER}")
    return {name: _tensor(path, name, tensor, torch) for name, tensor in found.items()}


def _refuse_bombs(path: Path, file: Any, size: int) -> None:
    """torch stores numbers as they are; an archive that would grow when it is unpacked was not written by it."""
    if not zipfile.is_zipfile(file):
        return
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        raise StoreError(f"{path} is damaged: its table of contents cannot be read. Get it again.") from None
    packed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
    if packed or sum(member.file_size for member in members) > size:
        raise StoreError(f"{path} is a compressed archive, which torch does not write. {RATHER}")


def _tensor(path: Path, name: str, tensor: Any, torch: Any) -> Tensor:
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.is_quantized:
        raise StoreError(f"{path}: {short(name)} is no plain tensor. {RATHER}")
    shape = tuple(int(n) for n in tensor.shape)
    return Tensor(shape, 8 * int(tensor.numel()), partial(_numbers, path, name, tensor))


def _numbers(path: Path, name: str, tensor: Any) -> np.ndarray:
    if not tensor.is_floating_point():
        raise StoreError(f"{path}: the tensor {short(name)} holds {tensor.dtype}, which are no weights.")
    tensor = tensor.detach()
    return (tensor if str(tensor.dtype) in ("torch.float32", "torch.float64") else tensor.float()).numpy()
