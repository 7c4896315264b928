"""A repair that is killed at any moment leaves the file as it was or as it should be, and the next one finishes it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from sessions import jsonl, nanobot_records

KILLS = 100

KILLER = """
import json, os, random, signal, sys, time
from legato.cli import main

folder, kills = sys.argv[1], int(sys.argv[2])
path = os.path.join(folder, "session")
broken, whole = (open(os.path.join(folder, name), "rb").read() for name in ("broken", "whole"))
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

def fix():
    child = os.fork()
    if not child:
        os._exit(main(["fix", "--write", path]))
    return child

def put():
    with open(path, "wb") as stream:
        stream.write(broken)

put()
started = time.monotonic()
assert os.waitpid(fix(), 0)[1] == 0
takes = time.monotonic() - started
chance = random.Random(5)
seen = {"as it was": 0, "repaired": 0}
for _ in range(kills):
    put()
    child = fix()
    time.sleep(chance.random() * takes * 1.2)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    left = open(path, "rb").read()
    assert left in (broken, whole), len(left)
    seen["repaired" if left == whole else "as it was"] += 1
    for name in os.listdir(folder):
        if name.startswith("session.bak"):
            assert open(os.path.join(folder, name), "rb").read() == broken, name
            os.unlink(os.path.join(folder, name))
put()
assert os.waitpid(fix(), 0)[1] == 0
assert open(path, "rb").read() == whole
os.write(2, json.dumps([seen, sorted(os.listdir(folder))]).encode())
"""


def test_a_hundred_times_killed_and_never_half_written(tmp_path: Path) -> None:
    head, *messages = nanobot_records()
    whole = jsonl({**head, "last_consolidated": 0}, *(message for _ in range(2_000) for message in messages))
    torn = json.dumps({"role": "user", "content": "x"})[:20].encode()
    (tmp_path / "whole").write_bytes(whole)
    (tmp_path / "broken").write_bytes(torn + b"\n" + whole)
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(tmp_path), str(KILLS)], capture_output=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    seen, left = json.loads(done.stderr)
    assert sum(seen.values()) == KILLS
    assert seen["as it was"] > 0
    assert left == ["broken", "session", "session.bak", "whole"]
