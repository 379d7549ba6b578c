"""The fields of a config.json: each is used, known to change nothing that is computed, or refused; none is passed over."""

from collections.abc import Mapping
from typing import Any

from tokenfield.errors import InputError, short, suggest

MOST = 1 << 24
"""The largest size that a field may have."""
LAYERS = 4096
"""The largest number of layers."""


def _named(names: str) -> frozenset[str]:
    return frozenset(names.split())


IRRELEVANT: dict[str, frozenset[str]] = {
    "a name": _named(
        """_name_or_path name_or_path _commit_hash architectures auto_map finetuning_task id2label label2id model_type num_labels
        problem_type task_specific_params tokenizer_class transformers_version transformers.js_config"""
    ),
    "what is dropped in training": _named(
        """attention_dropout attention_probs_dropout_prob attn_pdrop classifier_dropout classifier_dropout_prob embd_pdrop
        hidden_dropout_prob resid_pdrop summary_first_dropout"""
    ),
    "of training alone": _named("gradient_checkpointing initializer_range tf_legacy_loss"),
    "a token, or a default of generating": _named(
        """bad_words_ids begin_suppress_tokens bos_token_id decoder_start_token_id diversity_penalty do_sample early_stopping
        encoder_no_repeat_ngram_size eos_token_id eos_token_ids exponential_decay_length_penalty forced_bos_token_id
        forced_eos_token_id length_penalty max_length min_length no_repeat_ngram_size num_beam_groups num_beams
        num_return_sequences output_scores pad_token_id prefix remove_invalid_values repetition_penalty return_dict_in_generate
        sep_token_id suppress_tokens temperature top_k top_p typical_p"""
    ),
    "how it is computed or returned, not what": _named(
        """_attn_implementation _attn_implementation_autoset _experts_implementation attn_implementation chunk_size_feed_forward
        dtype output_attentions output_hidden_states output_past pretraining_tp reorder_and_upcast_attn return_dict
        tie_last_hidden_states torch_dtype torchscript use_bfloat16 use_cache"""
    ),
    "of a head that is not used": _named("summary_activation summary_proj_to_labels summary_type summary_use_proj"),
}
"""Fields that change no hidden state and no logit, by the reason."""

PLAIN: dict[str, tuple[Any, ...]] = {
    "add_cross_attention": (False, None),
    "cross_attention_hidden_size": (None,),
    "is_decoder": (False, None),
    "is_encoder_decoder": (False, None),
    "per_layer_config": (None, {}),
    "pruned_heads": (None, {}),
    "quantization_config": (None,),
    "sliding_window": (None,),
    "tie_encoder_decoder": (False, None),
}
"""Fields of every family that have one accepted value: what they ask for otherwise is not built here."""


class Config:
    """Fields, and which of them have been asked for.

    **Arguments**

    - `fields`: as they were read.
    - `where`: what a refusal calls the file.
    - `said`: what the file itself calls a field, where that is another name.
    """

    def __init__(self, fields: Mapping[str, Any], where: str, said: Mapping[str, str] | None = None):
        self.fields, self.where, self.said = dict(fields), where, said or {}
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """A field as it is, or the default where it is missing."""
        self.asked.add(name)
        return self.fields.get(name, default)

    def whole(self, name: str, default: int | None, *, most: int = MOST) -> int:
        """A field that is a size."""
        value = self.get(name, default)
        if type(value) is not int or not 1 <= value <= most:
            raise self.refusal(name, f"must be a whole number from 1 to {most}")
        return value

    def maybe(self, name: str) -> int | None:
        """A field that is a size, or null."""
        return None if self.get(name) is None else self.whole(name, None)

    def number(self, name: str, default: float) -> float:
        """A field that is a positive number."""
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
            raise self.refusal(name, "must be a positive number")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """A field that is true or false."""
        if not isinstance(value := self.get(name, default), bool):
            raise self.refusal(name, "must be true or false")
        return value

    def one_of(self, name: str, default: str, known: Mapping[str, str]) -> str:
        """What a field stands for that names a kind."""
        value = self.get(name, default)
        if not isinstance(value, str) or value not in known:
            raise self.refusal(name, "names a kind that is not built here", suggest(value, known))
        return known[value]

    def only(self, name: str, *accepted: Any) -> None:
        """Refuse a field that is there with another value than these."""
        value = self.get(name, accepted[0])
        if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in accepted):
            raise self.refusal(name, f"is accepted only as {' or '.join(_json(one) for one in accepted)}")

    def refusal(self, name: str, why: str, advice: str = "") -> InputError:
        """The sentence about a field that cannot be used."""
        value = f", but is {short(self.fields[name])}" if name in self.fields else ", but is missing"
        return InputError(f"{self.where}: the field `{self.said.get(name, name)}` {why}{value}. {advice}".rstrip())

    def finish(self) -> None:
        """Refuse what nobody has asked for, and what is asked of no model here.

        **Raises** `InputError`, which names the field.
        """
        for name, accepted in PLAIN.items():
            if name not in self.asked:
                self.only(name, *accepted)
        for name in self.fields:
            if name not in self.asked and reason(name) is None:
                raise self.refusal(
                    name,
                    "is not known here and may change what the model computes",
                    "If it does not, remove it from the file.",
                )


def reason(name: str) -> str | None:
    """Why a field changes nothing that is computed; None where it may."""
    return next((why for why, names in IRRELEVANT.items() if name in names), None)


def _json(value: Any) -> str:
    return (
        {True: "true", False: "false", None: "null"}[value] if value is None or isinstance(value, bool) else repr(value)
    )
