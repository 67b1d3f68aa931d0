# SPDX-License-Identifier: Apache-2.0
"""The end of the demo: each number of the run next to the same number from the CSV alone, and a verdict. Sets are compared, so that two
errors cannot cancel out in a count. A repeated delivery, which at-least-once allows, is shown but is not an error."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from rich.table import Table

from sprocketmq.cli.demo.flights import Flights

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Check:
    """Not checked if ``expected`` is None. ``note`` explains a difference that counts do not show; then the check fails."""

    name: str
    measured: int | float | str
    expected: int | float | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        return not self.note and (self.expected is None or self.measured == self.expected)


@dataclass
class Reconciliation:
    flights: Flights
    stages: dict[str, list[Check]] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return all(check.holds for checks in self.stages.values() for check in checks)

    def add(self, stage: str, *checks: Check) -> None:
        self.stages.setdefault(stage, []).extend(checks)

    def rows(self, name: str, got: set[int] | frozenset[int], wanted: set[int] | frozenset[int]) -> Check:
        """Check row numbers one by one: equal counts of different rows do not pass."""
        missing, extra = len(wanted - got), len(got - wanted)
        note = f"{missing:,} rows missing, {extra:,} rows that do not belong" if missing or extra else ""
        return Check(name, len(got), len(wanted), note)

    def means(self, delays: pd.DataFrame) -> list[Check]:
        expected = self.flights.mean_delays
        both = expected.merge(delays, on=["carrier", "hour"], how="outer", suffixes=("", "_got"), indicator=True)
        in_both = both[both["_merge"] == "both"]
        # Sums of whole minutes are exact in both; only the division may differ in the last place.
        close = (in_both["mean_dep_delay"] - in_both["mean_dep_delay_got"]).abs() < 1e-9
        right = int((close & (in_both["flights"] == in_both["flights_got"])).sum())
        note = "" if len(delays) == len(expected) == right else f"{len(both) - right:,} carriers and hours differ"
        return [
            Check("means by carrier and hour", right, len(expected), note),
            Check("flights in the means", int(delays["flights"].sum()), int(expected["flights"].sum())),
        ]

    def as_dict(self) -> dict[str, object]:
        return {
            "flights": len(self.flights),
            "reconciles": self.holds,
            "stages": {
                stage: [asdict(check) | {"holds": check.holds} for check in checks]
                for stage, checks in self.stages.items()
            },
        }

    def table(self) -> Table:
        table = Table(
            title="Reconciliation with the data set, read directly", title_justify="left", box=None, pad_edge=False
        )
        table.add_column("stage", style="bold")
        table.add_column("what")
        table.add_column("measured", justify="right")
        table.add_column("expected", justify="right")
        table.add_column("")
        for stage, checks in self.stages.items():
            for at, check in enumerate(checks):
                expected = "" if check.expected is None else _text(check.expected)
                verdict = (
                    ("" if check.expected is None else "[green]✓[/]") if check.holds else f"[red]✗ {check.note}[/]"
                )
                table.add_row(stage if at == 0 else "", check.name, _text(check.measured), expected, verdict)
            table.add_section()
        return table


def _text(number: float | str) -> str:
    return number if isinstance(number, str) else f"{number:,}"
