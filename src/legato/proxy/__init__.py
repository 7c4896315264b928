"""The proxy: any agent, in any language, governed by changing one URL.

`core.py` judges one request and knows no sockets: bytes and configuration in, a decision out. Around it stands the rim:

    account.py   what was done to it, in numbers and reasons
    sessions.py  conversations that are remembered, to save time
    config.py    what the operator states, from TOML
    routes.py    which API a path is, which upstream it goes to, and what path it has there
    headers.py   what is passed on, and what legato adds
    bodies.py    bodies read and inflated within bounds
    stream.py    what is read off a passing answer, and how names come back in it
    opening.py   whether a stream opens with an error
    learnt.py    what answers and refusals taught, by upstream and model
    upstream.py  the HTTP client
    exchange.py  one request from its first byte to its last
    app.py       the ASGI application; server.py runs it
    admin.py     /_legato/ and /metrics; records.py, metrics.py, logs.py, spans.py are what they show
"""
