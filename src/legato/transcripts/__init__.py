"""Conversations on disk: plain JSON and JSONL, and the session files of agents.

`files` reads and writes JSON; `readers` has the table of formats and what reads with them; `recording` is what comes
out. A format is one file of its own name. `mend` and `rewrite` repair a session file in place.
"""
