"""Trained models beside torch: `python -m benchmarks.models models CONTENDER`. MiniLM reads 16 texts of 128 tokens, SmolLM2 goes on
with a text, greedily; the contender of torch is `transformers` as one uses it, with its default attention and cache."""

import json
import resource
import sys
from typing import Any

import numpy as np

from benchmarks.harness import SMALL, times_only, warm

CONTENDERS = ("tokenfield", "torch")
BATCH, LENGTH = (2, 32) if SMALL else (16, 128)
NEW = 4 if SMALL else 32
PROMPT = np.arange(1000, 1032)
"""Numbers of tokens that the text begins with."""


def texts() -> np.ndarray:
    return np.random.default_rng(0).integers(1000, 30000, (BATCH, LENGTH))


def tokenfield() -> dict[str, Any]:
    """What is called, by setting."""
    import tokenfield as tkf

    bert, llama = tkf.Transformer.load("minilm"), tkf.Transformer.load("smollm2")
    return {"forward": lambda: np.asarray(bert(texts())), "generate": lambda: llama.continued(PROMPT, NEW)}


def torch() -> dict[str, Any]:
    """The same weights: those of MiniLM from its folder, those of SmolLM2 dequantized by transformers itself."""
    import torch
    from transformers import AutoModelForCausalLM, BertModel

    from tokenfield.transformer.files import installed

    folder, file = installed("minilm"), installed("smollm2")
    bert = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    llama = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    ids, prompt = torch.from_numpy(texts()), torch.from_numpy(PROMPT)[None]
    options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}

    def forward() -> np.ndarray:
        with torch.inference_mode():
            return bert(ids).last_hidden_state.numpy()

    def generate() -> list[int]:
        with torch.inference_mode():
            return llama.generate(prompt, attention_mask=torch.ones_like(prompt), **options)[0, len(PROMPT) :].tolist()

    return {"forward": forward, "generate": generate}


def main(contender: str) -> None:
    calls = {"tokenfield": tokenfield, "torch": torch}[contender]()
    found = {}
    for name, call in calls.items():
        first = np.asarray(call(), float)
        share = 1 if name == "forward" else NEW
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        note = "" if times_only() else f"peak memory of the process {peak:.0f} MB"
        found[name] = {"seconds": warm(call) / share, "check": float(np.mean(abs(first))), "note": note}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[2])
