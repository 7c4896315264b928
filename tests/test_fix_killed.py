"""A repair that is killed at any line leaves the file as it was or as it should be, and the next one finishes it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from sessions import jsonl, nanobot_records

KILLER = """
import json, os, signal, sys
from legato.cli import main
from legato.transcripts import rewrite

folder = sys.argv[1]
path = os.path.join(folder, "session")
broken, whole = (open(os.path.join(folder, name), "rb").read() for name in ("broken", "whole"))
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

def killed(last):
    \"\"\"Repair the file in a process that dies at so many lines of the module that writes. Whether it died.\"\"\"
    child = os.fork()
    if not child:
        lines = 0
        def line(frame, event, value):
            nonlocal lines
            lines += event == "line"
            if lines == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return line
        def enter(frame, event, value):
            return line if frame.f_code.co_filename == rewrite.__file__ else None
        sys.settrace(enter)
        os._exit(main(["fix", "--write", path]))
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return bool(status)

def put():
    for name in os.listdir(folder):
        if name.startswith("session"):
            os.unlink(os.path.join(folder, name))
    with open(path, "wb") as stream:
        stream.write(broken)

seen = {"as it was": 0, "repaired": 0}
last = 0
dies = True
while dies:
    put()
    last += 1
    dies = killed(last)
    left = open(path, "rb").read()
    assert left in (broken, whole), len(left)
    seen["repaired" if left == whole else "as it was"] += 1
    for name in os.listdir(folder):
        if name.startswith("session.bak"):
            assert open(os.path.join(folder, name), "rb").read() == broken, name
    assert not killed(-1)
    assert open(path, "rb").read() == whole
    names = sorted(os.listdir(folder))
    assert names == ["broken", "session", "session.bak", "whole"], (last, names)
os.write(2, json.dumps(seen).encode())
"""


def test_killed_at_any_line_and_never_half_written(tmp_path: Path) -> None:
    head, *messages = nanobot_records()
    whole = jsonl({**head, "last_consolidated": 0}, *messages * 3)
    torn = json.dumps({"role": "user", "content": "x"})[:20].encode()
    (tmp_path / "whole").write_bytes(whole)
    (tmp_path / "broken").write_bytes(torn + b"\n" + whole)
    done = subprocess.run([sys.executable, "-c", KILLER, str(tmp_path)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    seen = json.loads(done.stderr)
    assert seen["as it was"] > 20
    assert seen["repaired"] > 1
