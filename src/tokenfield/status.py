"""How a run ended."""

import enum


class Status(enum.IntEnum):
    """How a run ended. All but COMPLETED and STOPPED keep the part that was computed before."""

    MEETING = -2
    RUNNING = -1
    COMPLETED = 0
    STOPPED = 1
    MAX_STEPS = 2
    BLOW_UP = 3
    STALLED = 4
    INTERRUPTED = 5
    UNSOLVED = 6
    UNRESOLVED = 7
    BACKWARD = 8

    def __str__(self) -> str:
        return self.name

    @property
    def ok(self) -> bool:
        return self in (Status.COMPLETED, Status.STOPPED)

    def sentence(self, t: float) -> str:
        """What happened, where, and what to do about it."""
        return {
            Status.MEETING: f"merges tokens at t = {t:g}",
            Status.RUNNING: f"is still running at t = {t:g}",
            Status.COMPLETED: f"reached t = {t:g}",
            Status.STOPPED: f"stopped at t = {t:.8g}, where the stop condition was met",
            Status.MAX_STEPS: f"used up its steps at t = {t:.6g}; raise max_steps or loosen rtol",
            Status.BLOW_UP: f"blows up near t = {t:.10g}: it leaves every bound there; what came before is kept",
            Status.STALLED: f"cannot reach its tolerance beyond t = {t:.6g}; loosen rtol, or use float64",
            Status.UNSOLVED: f"ended at t = {t:.6g}, where attention's own iteration did not reach its tolerance: rounds did "
            "not suffice, or rounding is in the way; give it more iterations, a larger tolerance or a smaller β",
            Status.UNRESOLVED: f"is no longer resolved at t = {t:.6g}: the density has become too sharp for its modes; start with "
            "more of them, or add noise (kappa), or move Tokens",
            Status.BACKWARD: f"did not move from t = {t:.6g}: its end does not lie after its start, and time runs forward",
            Status.INTERRUPTED: f"was interrupted at t = {t:.6g}; what was computed is kept",
        }[self]
