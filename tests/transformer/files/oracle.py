"""Hugging Face's transformers and torch, which the files of trained models are compared with."""

import contextlib
import warnings
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers.models.llama import modeling_llama

import tokenfield as tkf

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)

HEADS = {
    "bert": transformers.BertForMaskedLM,
    "albert": transformers.AlbertForMaskedLM,
    "gpt2": transformers.GPT2LMHeadModel,
    "llama": transformers.LlamaForCausalLM,
}
CONFIGS = {
    "bert": transformers.BertConfig,
    "albert": transformers.AlbertConfig,
    "gpt2": transformers.GPT2Config,
    "llama": transformers.LlamaConfig,
}
SMALL = {
    "bert": dict(
        vocab_size=97,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=40,
    ),
    "albert": dict(
        vocab_size=97,
        embedding_size=24,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=40,
    ),
    "gpt2": dict(vocab_size=97, n_positions=40, n_embd=32, n_layer=3, n_head=4),
    "llama": dict(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=40,
    ),
}
"""Sizes of small models."""


def small(family: str, seed: int = 0, **options):
    """A small random model whose every tensor is random, norms and biases too, and large enough for attention to be uneven."""
    torch.manual_seed(seed)
    config = CONFIGS[family](**{**SMALL[family], **options})
    with quiet():
        model = HEADS[family]._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            norm = parameter.ndim == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.2 * noise if norm else 0.3 * noise)
    return model


def saved(model, folder: Path) -> Path:
    """The folder that transformers writes."""
    with quiet():
        model.save_pretrained(folder)
    return folder


@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def states(model, ids) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Hidden states of all layers, and logits where the model has a head."""
    exact = contextlib.nullcontext() if model.dtype == torch.float32 else in_double(model)
    with torch.no_grad(), quiet(), exact:
        found = model(torch.as_tensor(np.asarray(ids))[None], output_hidden_states=True, use_cache=False)
    logits = found.logits[0].numpy() if hasattr(found, "logits") else None
    return [state[0].numpy() for state in found.hidden_states], logits


def own_states(model: tkf.Transformer, ids) -> tuple[list[np.ndarray], np.ndarray]:
    """The same of ours: the last state is after the last norm, where transformers has it."""
    run = model.run(ids)
    last = run.x[-1] if model.norm is None else model.norm(run.x[-1])
    head = model.head
    logits = np.zeros((0, 0), last.dtype) if head is None else head(last, model.embedding.words)
    return [*(np.asarray(x) for x in run.x[:-1]), np.asarray(last)], np.asarray(logits)


def distance(ours, theirs) -> float:
    """The largest difference of hidden states and logits, each in units of its size: the largest entry."""
    pairs = [*zip(ours[0], theirs[0], strict=True)]
    pairs += [(ours[1], theirs[1])] if theirs[1] is not None else []
    assert all(a.shape == b.shape and a.dtype == b.dtype for a, b in pairs)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


@contextlib.contextmanager
def in_double(model):
    """LLaMA in transformers computes norms, softmax and angles in float32 whatever its weights are. Here all three are told to use
    float64: the same formulas without the casts, the frequencies computed again."""
    softmax, norm = torch.nn.functional.softmax, modeling_llama.LlamaRMSNorm.forward
    turn = modeling_llama.LlamaRotaryEmbedding.forward

    def exact_softmax(x, dim=None, dtype=None, **others):
        return softmax(x, dim=dim, **others)

    def exact_norm(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))

    def exact_turn(self, x, position_ids):
        angles = position_ids[..., None].double() * frequencies(self.config)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    torch.nn.functional.softmax = exact_softmax
    modeling_llama.LlamaRMSNorm.forward, modeling_llama.LlamaRotaryEmbedding.forward = exact_norm, exact_turn
    try:
        yield
    finally:
        torch.nn.functional.softmax = softmax
        modeling_llama.LlamaRMSNorm.forward, modeling_llama.LlamaRotaryEmbedding.forward = norm, turn


def frequencies(config) -> torch.Tensor:
    """Those of transformers, by its own functions, with float64 as the precision that they ask for."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    kind = config.rope_parameters["rope_type"]
    default = modeling_llama.LlamaRotaryEmbedding.compute_default_rope_parameters
    function = default if kind == "default" else ROPE_INIT_FUNCTIONS[kind]
    single = torch.float
    torch.float = torch.float64
    try:
        found = function(config)[0]
    finally:
        torch.float = single
    assert found.dtype == torch.float64
    return found


def of_gguf(path: Path, **sizes):
    """A LLaMA of a known config, its weights read and dequantized from a GGUF file by transformers' own code."""
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    with quiet():
        config = transformers.LlamaConfig(**sizes)
        with torch.device("meta"):
            model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="eager")
        tensors = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
        tensors.setdefault("lm_head.weight", tensors["model.embed_tokens.weight"])
        model.load_state_dict(tensors, assign=True)
        model.model.rotary_emb = modeling_llama.LlamaRotaryEmbedding(config)
    return model.eval()
