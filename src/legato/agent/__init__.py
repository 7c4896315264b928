"""An agent that governs before every request: `runner.py` first, then what it names.

`provider.py` is what it asks of a model and `tool.py` what a model may call; `providers/` and `tools/` hold the ones
there are. `events.py` is what a hook sees, `sessionfile.py` what a session is on disk.
"""
