"""A run in a terminal: lines that stay, and under them one that shows where the run stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from legato.agent.events import (
    AfterRequest,
    BeforeRequest,
    Event,
    RequestFailed,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from legato.cli.run_lines import ERROR, call, result, safe, shortened
from legato.cli.run_meter import Meter
from legato.cli.terminal import plain

PACE = 10
"""Times a second that the last line is drawn."""
FULL, FULLER = 0.7, 0.9
"""From these shares of the budget on the gauge is yellow, and red."""


class TerminalView:
    """Draws on a rich console. The text of an answer stays line by line, as each is complete."""

    def __init__(self, meter: Meter, console: Console | None = None) -> None:
        self.console = console = console or Console()
        self.meter = meter
        self.doing = "starting"
        self._tail = ""
        self._shown = ""
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(get_renderable=self.status, console=console, transient=True, refresh_per_second=PACE)

    def __call__(self, event: Event) -> None:
        self._live.start()
        match event:
            case BeforeRequest():
                self._end_text()
                changes = self.meter.changes()
                if changes is not None:
                    cuts = self.meter.cuts
                    self._put(Text(f"{'✂' if cuts else '✎'} {changes}", style="yellow" if cuts else "dim yellow"))
                self._now("asking the model")
            case TextDelta():
                self.doing = "answering"
                self._stream(event.text)
            case AfterRequest():
                self._end_text()
            case RequestFailed():
                self._end_text()
                self._put(Text(f"✗ {plain(event.error, ERROR)}", style="red"))
            case ToolStarted():
                self._shown = ""
                self._row(_called(event))
                self._now(f"running {plain(event.name)}")
            case ToolFinished():
                self._shown = ""
                if not event.ran:
                    self._row(_called(event))
                style = "red" if event.error else "dim"
                for line in result(event.text):
                    self._row(Text(f"  │ {line}", style=style))

    @property
    def people(self) -> TextIO:
        return cast(TextIO, self.console.file)

    def said(self, text: str) -> None:
        self._end_text()
        for line in result(text):
            self._row(Text(f"› {line}", style="bold"))

    def say(self, text: str) -> None:
        self._end_text()
        self._put(Text(safe(text), style="dim"))

    @contextmanager
    def pause(self) -> Iterator[TextIO]:
        self._end_text()
        self._live.stop()
        yield self.people
        self._live.start()

    def close(self, answer: str) -> None:
        self._end_text()
        self._live.stop()
        if answer.strip() and answer.strip() not in self._shown:
            self._put(Text("\n".join(safe(line) for line in answer.strip("\n").split("\n"))))
        if self.meter.request:
            self._put(self.gauge())

    def status(self) -> RenderableType:
        """What is drawn under all that stays: the line that is being written, what is going on, the gauge."""
        sign = cast(Text, self._spinner.render(self.console.get_time()))
        line = Text.assemble(sign, " ", (self.doing, "cyan"), "  ", self.gauge() if self.meter.request else "")
        line.no_wrap, line.overflow = True, "ellipsis"
        return Group(Text(safe(self._tail)), line) if self._tail else line

    def gauge(self) -> Text:
        share = self.meter.share
        colour = "green" if share is None or share < FULL else "yellow" if share < FULLER else "red"
        bar: list[str | tuple[str, str]] = [] if share is None else [("context ", "dim"), (self.meter.bar, colour), " "]
        return Text.assemble(*bar, (" · ".join(self.meter.parts()), "dim"))

    def _now(self, doing: str) -> None:
        """Something else is going on: shown at once, and not only when the line is drawn next."""
        self.doing = doing
        self._live.refresh()

    def _stream(self, text: str) -> None:
        self._shown += text
        *whole, self._tail = (self._tail + text).split("\n")
        if whole:
            self._put(Text("\n".join(map(safe, whole))))

    def _end_text(self) -> None:
        tail, self._tail = self._tail, ""
        if tail.strip():
            self._put(Text(safe(tail)))

    def _put(self, text: Text) -> None:
        self.console.print(text, highlight=False)

    def _row(self, text: Text) -> None:
        """On one line: what does not fit is not shown."""
        self.console.print(text, highlight=False, no_wrap=True, overflow="ellipsis")


def _called(event: ToolStarted | ToolFinished) -> Text:
    row = Text.assemble(("▸ ", "cyan"), (call(event.name, None), "bold cyan"))
    return row.append("".join(f" {shown}" for shown in shortened(event.arguments)))
