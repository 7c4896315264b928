"""`legato serve`: the proxy."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from legato.cli.failure import Failure
from legato.policy import PRESETS

DESCRIPTION = "Govern every request on its way: point a client's base URL here, and change nothing else."
EXAMPLES = """\
It governs /v1/chat/completions, /v1/responses, /v1/messages (and count_tokens), and
Gemini's generateContent and streamGenerateContent. All else passes through.

  legato serve --upstream https://api.openai.com
  OPENAI_BASE_URL=http://127.0.0.1:8787/v1 your-agent

  legato serve --upstream https://api.anthropic.com
  ANTHROPIC_BASE_URL=http://127.0.0.1:8787 your-agent

  legato serve --upstream http://127.0.0.1:8080 --profile llama.cpp --window 8192
  legato serve --config legato.toml

Keys pass through: they are neither stored nor logged. What is going on is shown in a
browser at /_legato/, and to Prometheus at /metrics. docs/proxy.md explains the TOML file.

exit code: 0 stopped, 2 cannot start"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("--upstream", metavar="URL", help="where requests go; what the file says otherwise")
    parser.add_argument("--config", metavar="FILE", help="a TOML file; the options below go before it")
    parser.add_argument("--host", metavar="ADDRESS", help="where to listen (127.0.0.1)")
    parser.add_argument("--port", type=int, metavar="N", help="the port (8787); 0 takes a free one")
    parser.add_argument("--profile", metavar="P", help="whose rules, where the upstream's host does not tell")
    parser.add_argument("--window", type=int, metavar="N", help="tokens of input and output together")
    parser.add_argument("--max-output", type=int, metavar="N", help="tokens kept free for the answer")
    parser.add_argument("--policy", metavar="NAME", help=f"{', '.join(PRESETS)}, off, or one of the file's")
    parser.add_argument("--ca", metavar="FILE", help="certificates (PEM) to trust upstreams by, besides the system's")
    parser.add_argument("--workers", type=int, metavar="N", help="processes that serve (1)")
    parser.add_argument(
        "--on-failure", choices=("pass", "refuse"), help="what becomes of a request that cannot be governed (pass)"
    )
    parser.add_argument("--contents", action="store_true", default=None, help="records hold what was changed, in full")


def run(options: argparse.Namespace) -> int:
    """Serve until a signal says stop. Raises `Failure`, `PolicyError`, `OSError`."""
    try:
        # The late import: the web server is an extra, and no other command loads it.
        from legato.proxy import config, server  # noqa: PLC0415
    except ImportError as problem:
        raise Failure(f"the proxy needs {problem.name}: pip install 'legato[proxy]'") from None
    fields: dict[str, Any] = {
        name: value
        for name in ("host", "port", "policy", "ca", "workers", "on_failure", "contents")
        if (value := getattr(options, name)) is not None
    }
    stated = ("profile", "window", "max_output")
    one = {name: value for name in stated if (value := getattr(options, name)) is not None}
    if options.upstream is not None:
        fields["upstream"] = [{"url": options.upstream, **one}]
    elif options.config is None:
        raise Failure("--upstream URL or --config FILE is needed")
    elif one:
        raise Failure(f"{', '.join(one)}: with a file that belongs to its [[upstream]]")
    found = config.load(options.config, **fields) if options.config is not None else config.made(fields)
    listening = server.listen(found.host, found.port)
    if sys.stderr.isatty():
        host, port = listening.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        upstreams = ", ".join(upstream.url for upstream in found.upstream)
        sys.stderr.write(f"legato: {url} -> {upstreams}; what goes on: {url}/_legato/\n")
    server.run(found, listening)
    return 0
