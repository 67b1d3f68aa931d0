# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq demo``: a year of flights through broker, consumer groups and Spark, shown on the terminal and reconciled at the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from sprocketmq import ConfigurationError
from sprocketmq.cli.demo.children import Child, ChildFailed
from sprocketmq.cli.demo.flights import ALL_ROWS, load_flights
from sprocketmq.cli.demo.reconcile import Reconciliation
from sprocketmq.cli.frame.target import Target
from sprocketmq.user_paths import user_path

# Columns of the report without a terminal, so that nothing is wrapped in a log file.
_LOG_WIDTH: Final = 110
# A marker file in the output folder: only a folder that contains it, or an empty one, is cleared.
_MARK: Final = ".sprocketmq-demo"
_READY: Final = re.compile(r"ready namesrv=(\S+) broker=(\S+) pid=(\d+)")
_START_TIMEOUT_S: Final = 30.0


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
    findings, progress = Reconciliation(flights), _progress(console)
    try:
        asyncio.run(_run(console, progress, findings, out, spark, target))
    except (asyncio.CancelledError, KeyboardInterrupt):
        console.print(f"[yellow]Stopped[/] {_how_far(progress)}; all processes were ended, files so far are in {out}")
        return 130
    except ChildFailed as error:
        console.print(f"[red]{error}[/]")
        return 1
    finally:
        if not keep:
            shutil.rmtree(out / "store", ignore_errors=True)
    return _conclude(console, findings, out, keep=keep, spark=spark)


async def _run(
    console: Console, progress: Progress, findings: Reconciliation, out: Path, spark: bool, target: Target | None
) -> None:
    from sprocketmq.cli.demo import stages

    _cancel_on_signals()
    async with contextlib.AsyncExitStack() as running:
        if target is None:
            target = await running.enter_async_context(_own_broker(console, out))
        else:
            console.print(f"name server {target.namesrv_addr}")
        run = stages.Run(findings.flights, target, out, progress, findings)
        running.enter_context(progress)
        driver = await running.enter_async_context(stages.started_spark(run)) if spark else None
        await stages.publish_all(run)
        await stages.consume_with_retry(run)
        await stages.consume_in_order(run)
        if driver is not None:
            await stages.run_pipeline(run, driver)


def _cancel_on_signals() -> None:
    """The first Ctrl-C or SIGTERM cancels this task, which then stops its children; what comes while it does so is ignored. An exception
    that a signal raises anywhere could come between the start of a child and noting it, which nobody would stop then."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    cancels = iter([task.cancel])
    with contextlib.suppress(NotImplementedError):  # Windows, where asyncio.run cancels on Ctrl-C
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, lambda: next(cancels, bool)())


@contextlib.asynccontextmanager
async def _own_broker(console: Console, out: Path) -> AsyncIterator[Target]:
    """``sprocketmq serve`` on free ports."""
    store = out / "store"
    command = ["sprocketmq.cli", "serve", "--store", str(store), "--namesrv-port", "0", "--broker-port", "0"]
    child = await Child.start(out / "logs" / "serve.log", *command, "--until-stdin-closes")
    try:
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_TIMEOUT_S):
                line = await child.stdout.readline()
        ready = _READY.match(line.decode())
        if ready is None:
            raise ConfigurationError(f"the demo's broker did not start: {child.said()}")
        console.print(f"broker {ready[2]}, name server {ready[1]}, store {store}")
        yield Target(ready[1])
    finally:
        await child.stop()


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
    console.print("Try next   sprocketmq serve --store ./store, with the programs of the tutorial (docs/tutorial.md)")
    if findings.holds:
        console.print("[bold green]Every number reconciles.[/]")
        return 0
    console.print(f"[bold red]Not every number reconciles[/]; logs are in {out / 'logs'}")
    return 1


def _how_far(progress: Progress) -> str:
    if not progress.tasks:
        return "before the first stage"
    task = progress.tasks[-1]
    return f"during {task.description!r}, with {task.completed:,} of {task.total:,} flights done and {task.remaining:,} left"


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
