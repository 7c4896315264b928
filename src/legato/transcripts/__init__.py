"""Conversations on disk: `files` reads and writes JSON and JSONL."""
