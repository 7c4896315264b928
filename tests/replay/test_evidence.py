"""What counts as evidence, on sessions small enough to see it."""

from __future__ import annotations

import pytest

from legato import wire
from legato.replay import evidence
from legato.replay.stage import Stage
from stories import call, recording, result, system, user


@pytest.mark.parametrize(
    "name",
    ["src/app.py", "load_users", "HTTPServer", "readFile", "8421", "a1b2c3d", "user@example.org", "os.path", "v1.2.3"],
)
def test_names_paths_ids_and_numbers_are_identifiers(name: str) -> None:
    assert evidence.is_identifier(name)


@pytest.mark.parametrize(
    "name", ["the", "reading", "Reading", "42", "e.g", "and/or", "utf-8", "well-known", "___", "..."]
)
def test_words_of_a_sentence_are_none(name: str) -> None:
    assert not evidence.is_identifier(name)


def names(item: dict[str, object]) -> frozenset[str]:
    (message,) = wire.read([item], "openai-chat").transcript
    return evidence.names_in(message)


def test_a_path_counts_whole_and_by_its_last_name() -> None:
    assert {"src/legato/app.py:17", "app.py"} <= names(result("c", "see src/legato/app.py:17."))


def test_arguments_are_read_value_by_value_and_their_keys_do_not_count() -> None:
    assert names(call("c", arguments='{"some_key": {"x": ["mia_li_3668", 7512]}}')) == {"mia_li_3668", "7512"}


def test_arguments_that_are_no_json_are_read_as_text() -> None:
    assert "half_a_name" in names(call("c", arguments='{"path": "half_a_name'))


def test_quoted_texts_of_several_words_count() -> None:
    assert "no such table: users" in names(result("c", 'it said "no such table: users" and stopped'))


def test_an_answer_needs_what_it_names_of_what_was_said_before_and_how_long_ago() -> None:
    story = recording(
        [
            system("Use /etc/app.toml."),
            user("Fix load_users in src/users.py."),
            call("c0", arguments='{"path": "src/users.py"}'),
            result("c0", "def load_users(): raise Error4711"),
            {"role": "assistant", "content": "Error4711 comes from /etc/app.toml; I made fix_99 up."},
            user("Go on."),
            {"role": "assistant", "content": "src/users.py is done, see load_users."},
        ]
    )
    needs = Stage.of(story, window=8_000).script.needs
    assert [[(used.name, used.age) for used in need.used] for need in needs] == [
        [("src/users.py", 0), ("users.py", 0)],
        [("Error4711", 0)],
        [("load_users", 1), ("src/users.py", 1), ("users.py", 1)],
    ]


def test_what_stands_in_the_system_prompt_or_is_made_up_is_no_evidence() -> None:
    story = recording([system("Ask tool_a."), user("Hello."), call("c0", arguments='{"x": "tool_a", "y": "new_name"}')])
    assert Stage.of(story, window=8_000).script.needs == [evidence.Need(())]


def test_a_name_is_there_as_long_as_one_message_that_holds_it_is() -> None:
    used = evidence.Used("x_1", [0, 3, 5], known=2, age=1)
    assert used.is_in([1, 0, 0, 0, 0, 0])
    assert used.is_in([0, 0, 0, 1, 0, 0])
    assert not used.is_in([0, 0, 0, 0, 0, 1]), "it came after the answer"


def test_each_age_has_its_bucket() -> None:
    assert evidence.labels() == ["0", "1", "2-4", "5-9", "10-19", "20-49", "50+"]
    ages = [0, 1, 2, 4, 5, 9, 10, 19, 20, 49, 50, 400]
    assert [evidence.bucket(age) for age in ages] == [0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
