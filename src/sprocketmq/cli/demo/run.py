# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq demo``: a year of flights through broker, consumer groups and Spark, shown on the terminal and reconciled at the end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from sprocketmq.cli.demo.flights import ALL_ROWS, load_flights
from sprocketmq.cli.demo.members import MemberDied
from sprocketmq.cli.demo.reconcile import Reconciliation
from sprocketmq.cli.demo.server import ServerProcess
from sprocketmq.cli.demo.stage import Stage
from sprocketmq.cli.frame.target import Target
from sprocketmq.errors import ConfigurationError
from sprocketmq.user_paths import user_path

if TYPE_CHECKING:
    from types import FrameType

# Columns of the report without a terminal, so that nothing is wrapped in a log file.
_LOG_WIDTH: Final = 110
# A marker file in the output folder: only a folder that contains it, or an empty one, is cleared.
_MARK: Final = ".sprocketmq-demo"


def run_demo(*, rows: int | None, out: Path, keep: bool, spark: bool, target: Target | None = None) -> int:
    """Returns the exit code: 0 if all numbers match, 1 if one does not, 130 after an interrupt. ``target``: None starts a broker of the
    demo's own. Raises ConfigurationError (no extra, no Java, or ``out`` holds other files)."""
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, _LOG_WIDTH)
    out = user_path(out).absolute()
    if spark:
        _require_java()
    _refuse_others_files(out)
    flights = load_flights(ALL_ROWS if rows is None else rows)
    _prepare(out)
    console.print(
        f"[bold]SprocketMQ demo[/]: {len(flights):,} flights that left New York City in 2013 "
        f"({len(flights.bad_rows):,} of them cancelled: the bad records)"
    )
    findings = Reconciliation(flights)
    progress = _progress(console)
    stage: Stage | None = None
    with _sigterm_as_interrupt():
        try:
            with contextlib.ExitStack() as running:
                if target is None:
                    server = running.enter_context(ServerProcess(out / "store", out / "logs" / "serve.log"))
                    target = Target(server.namesrv_addr)
                    console.print(
                        f"broker {server.broker_addr}, name server {server.namesrv_addr}, store {out / 'store'}"
                    )
                else:
                    console.print(f"name server {target.namesrv_addr}")
                stage = Stage(flights, target, out, progress, findings)
                running.enter_context(progress)
                _stages(stage, spark)
        except KeyboardInterrupt:
            console.print(f"[yellow]Stopped[/] {_how_far(stage)}; all processes were ended, files so far are in {out}")
            return 130
        except MemberDied as error:
            console.print(f"[red]{error}[/]")
            return 1
        finally:
            if not keep:
                shutil.rmtree(out / "store", ignore_errors=True)
    return _conclude(console, findings, out, keep=keep, spark=spark)


def _stages(stage: Stage, spark: bool) -> None:
    from sprocketmq.cli.demo import stages

    stages.publish_all(stage)
    stages.consume_with_retry(stage)
    stages.consume_in_order(stage)
    if spark:
        stages.run_pipeline(stage)


def _conclude(console: Console, findings: Reconciliation, out: Path, *, keep: bool, spark: bool) -> int:
    console.print()
    console.print(findings.table())
    (out / "summary.json").write_text(json.dumps(findings.as_dict(), indent=2) + "\n")
    console.print()
    if spark:
        console.print(f"Picture    {out / 'delays.png'}")
        console.print(f"Parquet    {out / 'delays.parquet'}")
    console.print(f"Summary    {out / 'summary.json'}")
    if keep:
        console.print(f"Store      {out / 'store'}   (open it with: sprocketmq serve --store {out / 'store'})")
    if findings.holds:
        console.print("[bold green]Every number reconciles.[/]")
        return 0
    console.print(f"[bold red]Not every number reconciles[/]; logs are in {out / 'logs'}")
    return 1


def _how_far(stage: Stage | None) -> str:
    if stage is None or stage.current is None:
        return "before the first stage"
    bar = stage.current
    return f"during {stage.doing!r}, with {bar.done:,} of {bar.total:,} flights done and {bar.total - bar.done:,} left"


def _refuse_others_files(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()) and not (out / _MARK).is_file():
        raise ConfigurationError(
            f"--out {out} holds files that are not the demo's; name an empty or a new folder, as in --out demo-out"
        )


def _prepare(out: Path) -> None:
    try:
        for child in out.iterdir() if out.is_dir() else ():
            if child.is_dir():
                shutil.rmtree(child)
            elif child.name != _MARK:
                child.unlink()
        (out / "logs").mkdir(parents=True)
        (out / _MARK).write_text("Made by `sprocketmq demo`, which clears this folder when it runs again.\n")
    except OSError as error:
        raise ConfigurationError(
            f"--out {out} cannot be written: {error.strerror or error}; name a folder that you may write"
        ) from error


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if (home and (Path(home) / "bin" / "java").exists()) or shutil.which("java"):
        return
    raise ConfigurationError(
        "the Spark pipeline needs Java 17 and none is found; install it or set JAVA_HOME, or leave the pipeline out with --no-spark"
    )


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<22}"),
        BarColumn(bar_width=None, table_column=Column(ratio=1, max_width=24)),
        # On a narrow terminal first the bar is shortened, then the detail; counts and time are never cut.
        MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=13, justify="right")),
        TimeElapsedColumn(table_column=Column(no_wrap=True, min_width=7)),
        TextColumn("{task.fields[detail]}", style="dim", table_column=Column(no_wrap=True, overflow="ellipsis")),
        console=console,
        refresh_per_second=8,
    )


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> Any:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, interrupt)
        yield
    finally:
        if before is not None:  # else it was not installed from Python, and cannot be put back
            signal.signal(signal.SIGTERM, before)
