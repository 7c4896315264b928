"""Models behind `LLMProvider`: one file an API. None of them is imported before it is used, nor is its SDK."""
