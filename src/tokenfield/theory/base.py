"""A statement of the theory: where it stands, when it applies, what it predicts, and whether a run shows it.

Nothing here loads JAX, so that statements can be listed at once.
"""

import abc
import dataclasses
import enum
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tokenfield._marks import no_type_check
from tokenfield.errors import InputError, short

if TYPE_CHECKING:
    from tokenfield.theory.report import Report
    from tokenfield.trajectory import Trajectory

RELATIONS = ("=", "≤", "≥")


class Outcome(enum.Enum):
    """What came of a check."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_APPLICABLE = "not applicable"
    INCONCLUSIVE = "inconclusive"


@no_type_check
@dataclasses.dataclass(frozen=True)
class Finding:
    """One quantity: what a statement predicts of it, and what was measured.

    **Arguments**

    - `what`: the quantity, in words.
    - `predicted`, `measured`: its values; infinity is one.
    - `tolerance`: how far they may be apart, derived from what is known: the solver's tolerance, the sampling error, the order
      of an asymptotic law. Never chosen by the outcome.
    - `because`: a sentence that derives the tolerance.
    - `relation`: "=" where measured and predicted agree within the tolerance; "≤" or "≥" where the prediction is a bound of
      what is measured, which may be passed by no more than the tolerance.
    - `rival`: what would be measured if the statement were wrong. A tolerance that reaches that far decides nothing.
    - `unsure`: why nothing can be concluded, where that is known.

    >>> Finding("rate", predicted=2.0, measured=1.99, tolerance=0.02, because="The fit's standard error is 0.01.").outcome.name
    'HOLDS'
    >>> Finding("rate", predicted=2.0, measured=1.99, tolerance=2.0, because="Few samples.", rival=1.0).outcome.name
    'INCONCLUSIVE'
    """

    what: str
    predicted: float
    measured: float
    tolerance: float
    because: str
    relation: str = "="
    rival: float | None = None
    unsure: str | None = None

    def __post_init__(self) -> None:
        for name in ("predicted", "measured", "tolerance"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        if self.rival is not None:
            object.__setattr__(self, "rival", _number("rival", self.rival))
        for name in ("what", "because"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"A finding's `{name}` must be words, but is {short(getattr(self, name))}.")
        if self.unsure is not None and not isinstance(self.unsure, str):
            raise InputError(f"A finding's `unsure` must be a reason, in words, but is {short(self.unsure)}.")
        if not isinstance(self.relation, str) or self.relation not in RELATIONS:
            raise InputError(
                f"A finding's `relation` must be one of {', '.join(RELATIONS)}, but is {short(self.relation)}."
            )
        if not self.tolerance >= 0 or math.isinf(self.tolerance):
            raise InputError(
                f"A finding's `tolerance` must be a number that is not negative, but is {self.tolerance!r}."
            )
        if math.isnan(self.predicted):
            raise InputError(f"A statement predicts a number, but for {self.what} it predicts NaN.")

    @property
    def excess(self) -> float:
        """How far what was measured is from where it should be: 0 within a bound."""
        gap = 0.0 if self.measured == self.predicted else self.measured - self.predicted
        return {"=": abs(gap), "≤": max(gap, 0.0), "≥": max(-gap, 0.0)}[self.relation]

    @property
    def doubt(self) -> str | None:
        """Why nothing can be concluded, or None."""
        if self.unsure is not None:
            return self.unsure
        if math.isnan(self.measured):
            return f"{self.what} could not be measured."
        if self.rival is not None and abs(self.rival - self.predicted) <= self.tolerance:
            return f"A tolerance of {self.tolerance:.3g} cannot tell {self.predicted:.6g} from {self.rival:.6g}."
        return None

    @property
    def outcome(self) -> Outcome:
        if self.doubt is not None:
            return Outcome.INCONCLUSIVE
        return Outcome.HOLDS if self.excess <= self.tolerance else Outcome.FAILS

    @property
    def expected(self) -> str:
        """The prediction with its tolerance, in a few characters."""
        if self.relation == "=":
            return f"{self.predicted:.6g} ± {self.tolerance:.2g}"
        return f"{self.relation} {self.predicted:.6g}"

    def __str__(self) -> str:
        doubt = f" {self.doubt}" if self.doubt else ""
        return f"{self.what}: measured {self.measured:.6g}, predicted {self.expected}. {self.because}{doubt}"


def _number(name: str, value: Any) -> float:
    """A number of a finding, which may be infinite and, where nothing could be measured, NaN."""
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        return float(value)
    except Exception:
        raise InputError(f"A finding's `{name}` must be one number, but is {short(value)}.") from None


SEVERITY = (Outcome.HOLDS, Outcome.INCONCLUSIVE, Outcome.FAILS)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a check of a statement came to.

    - `outcome`: HOLDS, FAILS, NOT_APPLICABLE (a hypothesis is not true of the inputs) or INCONCLUSIVE.
    - `hypotheses`: those that were tested, as pairs of a sentence and whether it is true.
    - `findings`: all that was compared; `predicted`, `measured`, `tolerance` and `because` are those of the worst.
    - `reason`: what decided, as a sentence.
    - `seconds`: how long it took, the run included where the check made it.
    """

    statement: "Statement"
    outcome: Outcome
    hypotheses: tuple[tuple[str, bool], ...] = ()
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    seconds: float = 0.0

    @classmethod
    def of(
        cls, statement: "Statement", hypotheses: Iterable[tuple[str, bool]], findings: Iterable[Finding], seconds: float
    ) -> "Verdict":
        """The verdict that findings come to: that of the worst."""
        findings = tuple(findings)
        outcome = max((finding.outcome for finding in findings), key=SEVERITY.index)
        verdict = cls(statement, outcome, tuple(hypotheses), findings, seconds=seconds)
        return dataclasses.replace(verdict, reason=str(verdict.worst))

    @property
    def worst(self) -> Finding | None:
        """The finding that decided: the one that is farthest out, in units of its tolerance."""
        known = [finding for finding in self.findings if finding.outcome is self.outcome] or list(self.findings)
        far = lambda finding: finding.excess / finding.tolerance if finding.tolerance else finding.excess * math.inf
        return max(known, key=lambda f: -1.0 if math.isnan(far(f)) else far(f), default=None)

    @property
    def predicted(self) -> float:
        return math.nan if self.worst is None else self.worst.predicted

    @property
    def measured(self) -> float:
        return math.nan if self.worst is None else self.worst.measured

    @property
    def tolerance(self) -> float:
        return math.nan if self.worst is None else self.worst.tolerance

    @property
    def because(self) -> str:
        """Where the tolerance comes from."""
        return "" if self.worst is None else self.worst.because

    def __bool__(self) -> bool:
        return self.outcome is Outcome.HOLDS

    def __str__(self) -> str:
        head = f"{self.statement.name} [{self.statement.cited}]: {self.outcome.name.replace('_', ' ')}"
        lines = [f"  {self.statement.says}"]
        lines += [f"  {'given' if true else 'not given'}: {sentence}" for sentence, true in self.hypotheses]
        lines += [f"  {finding}" for finding in self.findings]
        return "\n".join([head, *lines, *([f"  {self.reason}"] if self.reason and not self.findings else [])])

    __repr__ = __str__

    def as_dict(self) -> dict[str, Any]:
        """The verdict as plain data, for JSON: infinities and NaN as text."""
        plain = lambda value: value if not isinstance(value, float) or math.isfinite(value) else str(value)
        findings = [
            {name: plain(value) for name, value in dataclasses.asdict(finding).items()} for finding in self.findings
        ]
        return {
            "name": self.statement.name,
            "source": self.statement.source,
            "number": self.statement.number,
            "kind": self.statement.kind,
            "says": self.statement.says,
            "outcome": self.outcome.name,
            "reason": self.reason,
            "hypotheses": [{"sentence": sentence, "true": true} for sentence, true in self.hypotheses],
            "findings": findings,
            "seconds": self.seconds,
        }


class Statement(abc.ABC):
    """A statement that can be checked. A new one, a conjecture of your own say, fills in `findings`, and where it applies to
    some inputs only, `hypotheses`; the arguments of both are what `check` takes.

    - `name`, `says`: what it is called, and what it says, as a sentence.
    - `source`, `number`: where it stands: a key of docs/references.bib, and the number there.
    - `kind`: "theorem", "conjecture", "observation" (what a source saw) or "identity".
    - `remark`: what checking it has taught: where it is sharper than stated, or wrong.
    - `case(small)`, or `cases(small)` for several: inputs to check it on; `broken()`: inputs on which it must not hold.

    >>> class Halves(Statement):
    ...     name, says = "halves", "A half of x is less than x."
    ...     def hypotheses(self, x: float):
    ...         yield "x is positive", x > 0
    ...     def findings(self, x: float):
    ...         yield Finding("x/2", predicted=x, measured=x / 2, tolerance=0.0, because="Halving is exact.", relation="≤")
    >>> Halves().check(3.0).outcome, Halves().check(-3.0).outcome
    (<Outcome.HOLDS: 'holds'>, <Outcome.NOT_APPLICABLE: 'not applicable'>)
    """

    name: ClassVar[str]
    says: ClassVar[str]
    source: ClassVar[str] = ""
    number: ClassVar[str] = ""
    kind: ClassVar[str] = "conjecture"
    remark: ClassVar[str] = ""

    @abc.abstractmethod
    def findings(self, *inputs: Any, **named: Any) -> Iterator[Finding]:
        """What is predicted and measured of these inputs, one quantity after another."""

    def hypotheses(self, *inputs: Any, **named: Any) -> Iterable[tuple[str, bool]]:
        """Pairs of a sentence and whether it is true of these inputs. The first that is not ends the check."""
        return ()

    def case(self, small: bool) -> dict[str, Any]:
        """The inputs, by name, on which `verify` checks the statement: in seconds, or at full size."""
        raise InputError(f"The statement {self.name!r} has no case of its own: call its `check` with inputs of yours.")

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        """The same, where there are several: all findings together decide."""
        yield self.case(small)

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Inputs on which the statement must not hold, with a word on what is broken: a hypothesis, or the dynamics."""
        yield from ()

    def plot(self, *inputs: Any, **named: Any) -> None:
        """Draw what was compared, `plot(axes, ...)` with the inputs of `check`; only for statements that are better seen."""
        raise InputError(f"The statement {self.name!r} has no picture.")

    @property
    def pictured(self) -> bool:
        """Whether there is a picture."""
        return type(self).plot is not Statement.plot

    @property
    def cited(self) -> str:
        """Where the statement stands, as docstrings cite."""
        return ", ".join(part for part in (self.source, self.number) if part) or self.kind

    def check(self, *inputs: Any, **named: Any) -> Verdict:
        """Check the statement on given inputs, which are those of its `findings`.

        **Returns** a `Verdict`.

        **Raises** `InputError` where inputs are missing, unknown, of another kind, or lack what the statement needs.
        """
        began = time.perf_counter()
        inputs, named = self._read(inputs, named)
        tested: list[tuple[str, bool]] = []
        for sentence, true in self.hypotheses(*inputs, **named):
            tested.append((sentence, bool(true)))
            if not true:
                return Verdict(
                    self,
                    Outcome.NOT_APPLICABLE,
                    tuple(tested),
                    reason=f"Not true here: {sentence}.",
                    seconds=time.perf_counter() - began,
                )
        findings = tuple(self.findings(*inputs, **named))
        if not findings:
            raise InputError(f"The statement {self.name!r} compared nothing.")
        return Verdict.of(self, tested, findings, time.perf_counter() - began)

    def over(self, cases: "Iterable[Mapping[str, Any]] | Trajectory[Any]") -> "Report":
        """Check the statement on many inputs: a list of them, each a dict by name, or all members of an ensemble.

        **Returns** a `Report`, one verdict per case.
        """
        from tokenfield.theory.report import Report
        from tokenfield.trajectory import Trajectory

        if isinstance(cases, Trajectory):
            return Report(self.check(run) for run in cases.members())
        return Report(self.check(**case) for case in cases)

    def _read(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs, read by their annotations as those of every front door."""
        from tokenfield._front import Door

        return Door(self.findings, f"The check of {self.name}", eval_str=True).read(inputs, named)

    def __repr__(self) -> str:
        return f"{self.name} [{self.cited}]: {self.says}"
