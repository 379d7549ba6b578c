"""The frame of checks: findings, verdicts, reports, and the command that makes them."""

import json
import math
import subprocess
import sys

import pytest

import tokenfield as tkf
from tests.test_cli import tokenfield
from tokenfield.errors import InputError
from tokenfield.theory import Finding, Outcome, Statement, statement, verify
from tokenfield.theory.page import listing, page
from tokenfield.theory.statements import STATEMENTS


def finding(**changes):
    return Finding(**({"what": "rate", "predicted": 2.0, "measured": 2.0, "tolerance": 0.1, "because": "."} | changes))


class Doubles(Statement):
    """The double of x, which may be given: what a user's own conjecture looks like."""

    name, says = "doubles", "The double of x is 2x."

    def hypotheses(self, x: float, double: float | None = None):
        yield "x is positive", x > 0
        yield "x is at most 10", x <= 10

    def findings(self, x: float, double: float | None = None):
        measured = x + x if double is None else double
        yield finding(what="x + x", predicted=2 * x, measured=measured, tolerance=1e-15 * x)

    def case(self, small):
        return {"x": 1.0 if small else 2.0}


class TestFindings:
    @pytest.mark.parametrize(
        ("changes", "outcome"),
        {
            "equal": ({}, "HOLDS"),
            "within the tolerance": ({"measured": 2.09}, "HOLDS"),
            "outside": ({"measured": 2.11}, "FAILS"),
            "below an upper bound": ({"measured": -50.0, "relation": "≤"}, "HOLDS"),
            "above an upper bound": ({"measured": 2.2, "relation": "≤"}, "FAILS"),
            "above a lower bound": ({"measured": 50.0, "relation": "≥"}, "HOLDS"),
            "below a lower bound": ({"measured": 1.8, "relation": "≥"}, "FAILS"),
            "infinite, as predicted": ({"predicted": math.inf, "measured": math.inf}, "HOLDS"),
            "infinite, not as predicted": ({"measured": math.inf}, "FAILS"),
            "finite where infinity was predicted": ({"predicted": math.inf}, "FAILS"),
            "not measured": ({"measured": math.nan}, "INCONCLUSIVE"),
            "not measured, below a bound": ({"measured": math.nan, "relation": "≤"}, "INCONCLUSIVE"),
            "a tolerance that reaches the rival": ({"tolerance": 1.0, "rival": 1.0}, "INCONCLUSIVE"),
            "a rival that is told apart": ({"rival": 1.0}, "HOLDS"),
            "a reason to be unsure": ({"unsure": "The run is too short."}, "INCONCLUSIVE"),
        }.values(),
    )
    def test_outcomes(self, changes, outcome):
        assert finding(**changes).outcome.name == outcome

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"relation": "<"}, "relation"),
            ({"tolerance": -1.0}, "tolerance"),
            ({"tolerance": math.nan}, "tolerance"),
            ({"predicted": math.nan}, "predicts NaN"),
            ({"measured": "2"}, "must be one number, but is '2'"),
        ],
    )
    def test_refusals(self, changes, words):
        with pytest.raises(InputError, match=words):
            finding(**changes)


class TestVerdicts:
    def test_hypotheses_are_tested_in_order(self):
        verdict = Doubles().check(-1.0)
        assert verdict.outcome is Outcome.NOT_APPLICABLE and not verdict.findings
        assert verdict.hypotheses == (("x is positive", False),) and "x is positive" in verdict.reason
        assert Doubles().check(11.0).hypotheses[-1] == ("x is at most 10", False)

    def test_the_worst_finding_decides(self):
        class Many(Doubles):
            def findings(self, x: float, double: float | None = None):
                yield finding()
                yield finding(measured=math.nan)
                yield finding(measured=2.2, what="the one that fails")

        verdict = Many().check(1.0)
        assert verdict.outcome is Outcome.FAILS and verdict.measured == 2.2 and "the one that fails" in verdict.reason
        assert not verdict and Doubles().check(1.0)

    def test_numbers_and_derivation_are_there(self):
        verdict = Doubles().check(3.0)
        assert (verdict.predicted, verdict.measured, verdict.because) == (
            6.0,
            6.0,
            ".",
        ) and 0 < verdict.tolerance < 1e-14
        assert "doubles [conjecture]: HOLDS" in str(verdict) and "given: x is positive" in str(verdict)

    @pytest.mark.parametrize(
        ("call", "words"),
        {
            "nothing": (lambda: Doubles().check(), "needs its argument `x`"),
            "text": (lambda: Doubles().check("3"), "`x` must be"),
            "an unknown name": (lambda: Doubles().check(y=3.0), "no argument `y`"),
            "no case": (lambda: Statement.case(Doubles(), True), "no case of its own"),
            "no picture": (lambda: Doubles().plot(None), "no picture"),
            "an unknown statement": (lambda: statement("hemisphere-rat"), "Did you mean 'hemisphere-rate'"),
            "a number for a statement": (lambda: verify(3), "`which` must be the name"),
            "a run that is none": (lambda: statement("hemisphere-rate").check(3), "`run` must be a Trajectory"),
            "a batch": (
                lambda: statement("energy-increases").check(
                    tkf.evolve([tkf.sa(1.0)], [tkf.Tokens.orthonormal(3)] * 2, t=1.0, save=2)
                ),
                "one run, but these are many",
            ),
            "a run without a flow": (
                lambda: statement("energy-increases").check(tkf.Trajectory.from_states([[[1.0, 0.0]]])),
                "knows its flow",
            ),
        }.values(),
    )
    def test_refusals(self, call, words):
        with pytest.raises(InputError, match=words):
            call()


class TestReports:
    def test_a_conjecture_of_ones_own(self):
        report = verify([Doubles(), "kuramoto"])
        assert [verdict.outcome.name for verdict in report] == ["HOLDS", "HOLDS"] and not report.failed
        assert report["doubles"].measured == 2.0 and "2 checked" in str(report) and len(report[:1]) == 1

    def test_over_many_inputs(self):
        report = Doubles().over([{"x": 1.0}, {"x": -1.0}, {"x": 1.0, "double": 3.0}])
        assert [verdict.outcome.name for verdict in report] == ["HOLDS", "NOT_APPLICABLE", "FAILS"]
        assert report.summary.endswith("1 holds, 1 fails, 1 not applicable.")

    def test_over_an_ensemble(self):
        starts = [tkf.Tokens.uniform_sphere(n=4, d=3, seed=seed) for seed in range(2)]
        runs = tkf.evolve([tkf.sa(1.0), tkf.sa(1.0, V=-1.0)], starts, t=1.0, save=4)
        report = statement("energy-increases").over(runs)
        assert [verdict.outcome.name for verdict in report] == ["HOLDS"] * 2 + ["NOT_APPLICABLE"] * 2

    def test_json_and_markdown(self):
        class Endless(Doubles):
            def findings(self, x: float, double: float | None = None):
                yield finding(measured=math.inf if double else 2.0)

        report = Endless().over([{"x": 1.0}, {"x": 1.0, "double": 3.0}])
        data = json.loads(report.to_json())
        assert data[0]["outcome"] == "HOLDS" and data[1]["findings"][0]["measured"] == "inf"
        assert report.to_markdown().count("\n") == 3 and "| doubles |" in report.to_markdown()
        assert "## doubles" in page(report, small=True) and "**FAILS.**" in page(report, small=True)

    def test_what_a_case_cannot_compute_is_no_verdict(self):
        class Poor(Doubles):
            def case(self, small):
                raise InputError("There is no room.")

        verdict = verify(Poor())[0]
        assert verdict.outcome is Outcome.INCONCLUSIVE and verdict.reason == "There is no room."


class TestTheCommand:
    def test_the_list_loads_no_jax(self):
        script = (
            "import sys; sys.argv = ['tokenfield', 'verify', '--list']\n"
            "from tokenfield.cli import app\n"
            "try: app()\nexcept SystemExit: pass\n"
            "assert 'jax' not in sys.modules and 'scipy' not in sys.modules"
        )
        told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        assert all(name in told for name in STATEMENTS) and told.strip() == listing()

    def test_verdicts_and_files(self, tmp_path):
        told = tokenfield("verify", "kuramoto", "--small", "--json", "all.json", "--page", "page.md", cwd=tmp_path)
        assert "HOLDS" in told.stdout and "1 checked" in told.stdout
        assert json.loads((tmp_path / "all.json").read_text())[0]["name"] == "kuramoto"
        assert "## kuramoto" in (tmp_path / "page.md").read_text()

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("verify", "kuramotto"), "Did you mean 'kuramoto'"),
            (("verify", "kuramoto", "--json", "nowhere/at/all.json"), "cannot be written"),
            (("verify", "kuramoto", "--json", "."), "cannot be written"),
        ],
    )
    def test_refusals(self, tmp_path, arguments, words):
        told = tokenfield(*arguments, cwd=tmp_path, ok=False)
        assert told.returncode == 2 and words in told.stderr and "Traceback" not in told.stderr

    def test_one_that_fails_ends_with_1(self, monkeypatch):
        from typer.testing import CliRunner

        from tokenfield import cli
        from tokenfield.theory import verification

        class Wrong(Doubles):
            def case(self, small):
                return {"x": 1.0, "double": 3.0}

        monkeypatch.setitem(verification.STATEMENTS, "wrong", Wrong())
        told = CliRunner().invoke(cli.app, ["verify", "wrong"])
        assert told.exit_code == 1 and "FAILS" in told.output


def test_pictures(tmp_path):
    verify("equiangular-rate", plots=tmp_path / "pictures")
    assert (tmp_path / "pictures" / "equiangular-rate.png").stat().st_size > 10_000
