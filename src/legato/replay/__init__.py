"""What would a policy have cost, kept and broken? Recorded sessions are played again, request by request.

`play.replay(recording, choices)` does it; `policies.py` says what can be compared, `cache.py` what the provider's
prompt cache keeps, `evidence.py` what an answer needed of what was said before, `optimum.py` how cheap it could have
been. `Replay.to_dict()` is all that was found, as JSON.
"""
