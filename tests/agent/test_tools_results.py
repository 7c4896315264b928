"""Long results become a preview and a handle, by which the whole is read back page by page. And searching the web."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path

import pytest

from legato.agent.tool import Output, Tool, tool
from legato.agent.tools import Limits, Service, kept, workspace_tools
from legato.agent.tools.websearch import WebSearch
from legato.recall import FolderStore, StoreError
from web_server import nobody, page, serving

LONG = "".join(f"line {number} of a long result\n" for number in range(5_000))


@tool
def long(error: bool = False) -> Output:
    """A long result."""
    return Output(LONG, error)


def call(tool: Tool, **arguments: object) -> Output:
    return asyncio.run(tool.call(arguments))


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


def texts(store: FolderStore) -> int:
    return sum(len(files) for _, _, files in os.walk(store.path))


def test_a_long_result_is_a_preview_with_both_ends_and_a_handle(store: FolderStore) -> None:
    [wrapped] = kept([long], store, 16_000)
    output = call(wrapped, error=True)
    assert output.error
    assert len(output.text) < 16_500
    assert output.text.startswith("line 0 of a long result\n")
    assert "line 4999 of a long result\n" in output.text
    assert "tokens omitted" in output.text
    found = re.search(r'recall\("(\w+)"\)', output.text)
    assert found
    assert str(store.recall(found[1], max_chars=None)).startswith(LONG)
    assert f"{len(LONG):,} characters" in output.text
    assert wrapped.definition() == long.definition()


def test_reading_back_gives_the_whole_and_stores_nothing(tmp_path: Path, store: FolderStore) -> None:
    box = {each.name: each for each in workspace_tools(tmp_path, recall=store, limits=Limits(result=4_000))}
    handle = store.keep(LONG)
    got, start = "", 1
    while True:
        output = call(box["recall"], handle=handle, start=start)
        assert len(output.text) < 4_200
        body, _, note = output.text.rpartition("[")
        got += body
        if "start=" not in note:
            break
        assert int(note.rpartition("start=")[2].rstrip("]")) > start
        start = int(note.rpartition("start=")[2].rstrip("]"))
    assert got == LONG
    assert texts(store) == 1
    (tmp_path / "long.txt").write_text(LONG)
    call(box["read_file"], path="long.txt")
    assert texts(store) == 1
    assert "handle" not in call(box["recall"], handle=handle, pattern="line 7 ").text


@pytest.mark.parametrize(
    "arguments", [{"handle": "0" * 16}, {"handle": "../../etc/passwd"}, {"handle": "x", "start": 0}]
)
def test_a_handle_that_is_none_is_refused_in_words(
    tmp_path: Path, store: FolderStore, arguments: dict[str, object]
) -> None:
    [recall] = [each for each in workspace_tools(tmp_path, recall=store) if each.name == "recall"]
    assert call(recall, **arguments).error


def test_output_of_a_command_that_is_too_long_can_be_recalled(tmp_path: Path, store: FolderStore) -> None:
    box = {each.name: each for each in workspace_tools(tmp_path, recall=store)}
    output = call(box["exec"], command=f"{sys.executable} -c \"for n in range(9999): print('row', n)\"")
    assert "row 0\n" in output.text
    assert "[exit code 0]" in output.text
    handle = re.findall(r'recall\("(\w+)"\)', output.text)[0]
    assert call(box["recall"], handle=handle, pattern="^row 5000$").text.startswith("5001: row 5000\n")


def test_without_a_store_or_room_in_it_the_loss_is_admitted(tmp_path: Path) -> None:
    [wrapped] = kept([long], None, 4_000)
    assert "the rest was not kept]" in call(wrapped).text
    small = FolderStore(tmp_path / "small", max_bytes=100)
    with pytest.raises(StoreError):
        small.keep(LONG)
    [wrapped] = kept([long], small, 4_000)
    assert "the rest could not be kept: " in call(wrapped).text


def test_a_result_that_is_not_too_long_is_left_alone(store: FolderStore) -> None:
    @tool
    def short() -> str:
        """Short."""
        return "x" * 16_000

    [wrapped] = kept([short], store, 16_000)
    assert call(wrapped) == Output("x" * 16_000)
    assert texts(store) == 0


def test_the_tools_are_the_documents_eight_and_what_an_agent_needs_besides(tmp_path: Path, store: FolderStore) -> None:
    names = {each.name for each in workspace_tools(tmp_path, recall=store)}
    assert names >= {
        "read_file",
        "exec",
        "grep",
        "find_files",
        "web_search",
        "web_fetch",
        "list_dir",
        "list_exec_sessions",
    }
    assert names >= {"write_file", "edit_file", "write_stdin", "kill_exec_session", "recall"}
    offline = {each.name for each in workspace_tools(tmp_path, recall=store, web=False)}
    assert names - offline == {"web_search", "web_fetch"}
    for each in workspace_tools(tmp_path):
        assert each.description
        assert all("description" in field for field in each.parameters["properties"].values()), each.name
        assert re.fullmatch(r"[a-z_]{1,64}", each.name)


# -- web search --------------------------------------------------------------------------------------------------------

SEARX = {
    "query": "q",
    "results": [{"url": "http://a", "title": "A", "content": "about  a"}, {"url": "http://b", "title": "B"}],
}
BRAVE = {
    "type": "search",
    "query": {"original": "q"},
    "web": {"results": [{"url": "http://a", "title": "A", "description": "about a"}]},
}
ITEMS = {"items": [{"link": "http://a", "title": "A", "snippet": "about a"}]}


def search(service: Service | None, **arguments: object) -> Output:
    [made] = WebSearch(Limits(fetch_seconds=60), service).tools()
    return call(made, **arguments)


@pytest.mark.parametrize("answer", [SEARX, BRAVE, ITEMS], ids=["searxng", "brave", "items"])
def test_results_of_any_json_service_are_listed(answer: object) -> None:
    with serving({"/search": page(json.dumps(answer), "application/json")}) as server:
        service = Service(f"http://127.0.0.1:{server.port}/search?q={{query}}&n={{count}}", {"X-Key": "k"})
        output = search(service, query="a b&c=d", count=1)
        assert output == Output("1. A\n   http://a\n   about a")
        assert server.asked[0][1] == "/search?q=a%20b%26c%3Dd&n=1"


def test_a_service_that_fails_is_said_to() -> None:
    answers = {
        "/html": page("<html>"),
        "/429": page("{}", status=429),
        "/none": page("{}", "application/json"),
        "/redirect": page("", status=302, location="http://127.0.0.1:1/"),
    }
    with serving(answers) as server:
        base = f"http://127.0.0.1:{server.port}"
        assert "did not answer with JSON" in search(Service(f"{base}/html"), query="q").text
        assert search(Service(f"{base}/429"), query="q") == Output(
            "the search service answered with status 429", error=True
        )
        assert search(Service(f"{base}/redirect"), query="q").error
        assert search(Service(f"{base}/none"), query="q") == Output("no results")
    with nobody() as address:
        assert search(Service(address), query="q").text.startswith("the search service cannot be reached")


def test_the_service_is_the_one_that_the_environment_names() -> None:
    assert Service.of({}) is None
    environment = {"LEGATO_SEARCH_URL": "http://x/?q={query}", "LEGATO_SEARCH_HEADERS": "X-Key: a:b\nOther: c"}
    assert Service.of(environment) == Service("http://x/?q={query}", {"X-Key": "a:b", "Other": "c"})


def test_without_a_service_the_reason_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ddgs", None)
    output = search(None, query="q")
    assert output == Output(
        "no search service is set up: set LEGATO_SEARCH_URL, or install ddgs (pip install ddgs)", error=True
    )
