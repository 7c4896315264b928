"""A replay as one HTML file to look at: no network, and nothing that a transcript says can run.

Data go in as JSON in `<script type="application/json">`, a block a session so that only the one that is looked at is
parsed, and come out through `textContent`. The charts are uPlot's (MIT), which is vendored beside the page.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib import resources

from legato.messages import Json
from legato.replay.page.columns import columns, overview, room
from legato.replay.played import Replay

STYLES = ("uplot.min.css", "page.css", "parts.css")
SCRIPTS = ("theme.js", "dom.js", "charts.js", "timeline.js", "tables.js", "request.js", "main.js")
ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
MARK = re.compile(r"@@(\w+)@@")


def render(replays: Sequence[Replay]) -> str:
    """The page of these replays. Contents are cut so that it stays of a size to open."""
    most = room(replays)
    blocks = [_block("overview", overview(replays))]
    blocks += [_block(f"replay-{number}", columns(played, most)) for number, played in enumerate(replays)]
    style = "\n".join(map(_file, STYLES))
    chart = f"/*\n{_file('uplot.LICENSE')}*/\n{_file('uplot.min.js')}"
    script = '"use strict";\n(() => {\n' + "\n".join(map(_file, SCRIPTS)) + "})();\n"
    icon = b64encode(_file("icon.svg").encode()).decode()
    parts = {
        "policy": _security(chart, script, style=style),
        "icon": f"data:image/svg+xml;base64,{icon}",
        "mark": _file("icon.svg"),
        "style": style,
        "data": "\n".join(blocks),
        "chart": chart,
        "script": script,
    }
    return MARK.sub(lambda found: parts[found[1]], _file("page.html"))


def _security(*scripts: str, style: str) -> str:
    """What the page may do: run these very scripts, and nothing else."""
    allowed = " ".join(map(_hash, scripts))
    rules = ["default-src 'none'", f"script-src {allowed}", f"style-src {_hash(style)}", "img-src data:"]
    return "; ".join([*rules, "base-uri 'none'", "form-action 'none'"])


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _block(name: str, value: Json) -> str:
    """A value that no HTML parser sees anything in: ASCII only, and no `<`, `>` and `&`."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).translate(ESCAPES)
    return f'<script type="application/json" id="{name}">{text}</script>'


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
