"""Images, audio, video and documents: any wire format's block read into one `Source`, and written as any other's."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

import msgspec

from legato.messages import Json
from legato.wire import shape

TYPES = {
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "html": "text/html",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "mp4": "video/mp4",
    "mov": "video/quicktime",
    "webm": "video/webm",
    "mkv": "video/x-matroska",
}
"""MIME types by the short word that URLs, Bedrock and OpenAI's audio use."""

WORDS = {mime: word for word, mime in reversed(TYPES.items())} | {"audio/mp3": "mp3", "audio/x-wav": "wav"}


class Source(msgspec.Struct, frozen=True):
    """What a block shows, and where: `data` is base64, `file` an id that only the APIs of `home` know.

    `kind` is image, audio, video or document; exactly one of `data`, `url`, `file` and `text` is set.
    """

    kind: str
    mime: str | None = None
    data: str | None = None
    url: str | None = None
    file: str | None = None
    text: str | None = None
    name: str | None = None
    home: str | None = None

    def as_text(self) -> str:
        """What stands for it where a format has no block for it: the text or the place, else how much there was."""
        if self.text is not None:
            return self.text
        what = " ".join(filter(None, (self.mime or self.kind, self.name)))
        return f"[{what}: {self.url or self.file or f'{len(self.data or str()):,} characters of base64 left out'}]"

    @property
    def data_url(self) -> str | None:
        return f"data:{self.mime or 'application/octet-stream'};base64,{self.data}" if self.data is not None else None


def read(block: Json) -> Source | None:
    """What a block of any format shows, or None if it is none that legato can read."""
    if not isinstance(block, dict):
        return None
    return _read_anthropic(block) or _read_openai(block) or _read_gemini(block) or _read_bedrock(block)


def write(source: Source, to: str) -> Json | None:
    """The block of the format `to`, or None if it has none for this kind, type or place of the data."""
    return WRITERS[to](source)


def _located(kind: str, url: Json, name: Json = None) -> Source | None:
    """Read a URL, which may hold the data itself."""
    if not isinstance(url, str):
        return None
    name = _text(name)
    if not url.startswith("data:"):
        return Source(kind, TYPES.get(url.partition("?")[0].rpartition(".")[2].lower()), url=url, name=name)
    head, _, data = url.removeprefix("data:").partition(",")
    mime = head.partition(";")[0] or None
    return Source(kind, mime, data, name=name) if head.endswith(";base64") else Source(kind, mime, url=url, name=name)


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _data(value: Json) -> str | None:
    """The base64 of media: as it is on the wire, or of the bytes that an SDK takes for it."""
    return shape.as_base64(value) if isinstance(value, bytes) else _text(value)


def _kind(mime: str | None) -> str:
    kind = (mime or "").partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "document"


def _read_anthropic(block: dict[str, Json]) -> Source | None:
    kind, source, name = block.get("type"), block.get("source"), _text(block.get("title"))
    if kind not in ("image", "document") or not isinstance(source, dict):
        return None
    mime, data, file = (_text(source.get(key)) for key in ("media_type", "data", "file_id"))
    if file is not None:
        return Source(kind, file=file, name=name, home="anthropic")
    if data is None:
        return _located(kind, source.get("url"), name)
    if source.get("type") == "text":
        return Source(kind, mime, text=data, name=name)
    return Source(kind, mime, data, name=name)


def _read_openai(block: dict[str, Json]) -> Source | None:
    """Chat keeps most of it one level deeper than Responses does."""
    kind = block.get("type")
    if kind in ("image_url", "input_image", "computer_screenshot", "video_url"):
        kind = "video" if kind == "video_url" else "image"
        url = block.get(f"{kind}_url")
        found = _located(kind, url.get("url") if isinstance(url, dict) else url)
        file = _text(block.get("file_id"))
        return found or (Source(kind, file=file, home="openai") if file is not None else None)
    if kind in ("file", "input_file", "document_url"):
        inner = block["file"] if isinstance(block.get("file"), dict) else block
        data, file = inner.get("file_data"), _text(inner.get("file_id"))
        name = inner.get("filename", inner.get("document_name"))
        if file is not None:
            return Source("document", file=file, home="openai")
        return _located("document", data or inner.get("file_url") or inner.get("document_url"), name)
    audio = block.get("input_audio")
    if kind == "input_audio" and isinstance(audio, dict) and isinstance(audio.get("data"), str):
        return Source("audio", TYPES.get(str(audio.get("format"))), data=audio["data"])
    return None


def _read_gemini(block: dict[str, Json]) -> Source | None:
    """Its base64 may be of the URL-safe kind, which nobody else reads."""
    inner = next((block[key] for key in ("inlineData", "inline_data", "fileData", "file_data") if key in block), None)
    if not isinstance(inner, dict):
        return None
    mime = _text(inner.get("mimeType", inner.get("mime_type")))
    data, uri = _data(inner.get("data")), _text(inner.get("fileUri", inner.get("file_uri")))
    if data is not None:
        data = data.replace("-", "+").replace("_", "/")
        return Source(_kind(mime), mime, data + "=" * (-len(data) % 4))
    if uri is None:
        return None
    kind = _kind(mime)
    return Source(kind, mime, url=uri) if uri.startswith("http") else Source(kind, mime, file=uri, home="gemini")


def _read_bedrock(block: dict[str, Json]) -> Source | None:
    kind = next(iter(block), "")
    inner = block.get(kind)
    if kind not in ("image", "document", "video", "audio") or not isinstance(inner, dict):
        return None
    source = inner.get("source")
    if not isinstance(source, dict):
        return None
    mime, name = TYPES.get(str(inner.get("format"))), _text(inner.get("name"))
    data, text = _data(source.get("bytes")), source.get("text")
    if data is not None:
        return Source(kind, mime, data, name=name)
    if isinstance(text, str):
        return Source(kind, mime, text=text, name=name)
    place = source.get("s3Location")
    uri = _text(place.get("uri")) if isinstance(place, dict) else None
    return None if uri is None else Source(kind, mime, file=uri, name=name, home="bedrock")


def _write_chat(source: Source) -> Json | None:
    url = source.url or source.data_url
    if source.kind in ("image", "video") and url is not None:
        return {"type": f"{source.kind}_url", f"{source.kind}_url": {"url": url}}
    if source.kind == "audio" and source.data is not None and WORDS.get(source.mime or "") in ("wav", "mp3"):
        return {"type": "input_audio", "input_audio": {"data": source.data, "format": WORDS[source.mime or ""]}}
    if source.kind == "document" and source.file is not None and source.home == "openai":
        return {"type": "file", "file": {"file_id": source.file}}
    if source.kind == "document" and source.data is not None:
        return {"type": "file", "file": {"filename": _filename(source), "file_data": source.data_url}}
    return None


def _write_responses(source: Source) -> Json | None:
    file = source.file if source.home == "openai" else None
    if source.kind == "image":
        if file is not None:
            return {"type": "input_image", "file_id": file, "detail": "auto"}
        url = source.url or source.data_url
        return None if url is None else {"type": "input_image", "image_url": url, "detail": "auto"}
    if source.kind != "document":
        return _write_chat(source) if source.kind == "audio" else None
    if file is not None:
        return {"type": "input_file", "file_id": file}
    if source.url is not None:
        return {"type": "input_file", "file_url": source.url}
    if source.data is not None:
        return {"type": "input_file", "filename": _filename(source), "file_data": source.data_url}
    return None


def _write_anthropic(source: Source) -> Json | None:
    """Images of four types, PDFs, and plain text as a document."""
    if source.kind not in ("image", "document"):
        return None
    if source.url is not None and not source.url.startswith("data:"):
        return {"type": source.kind, "source": {"type": "url", "url": source.url}}
    text = source.text if source.text is not None else _decoded(source)
    if text is not None:
        return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}
    known = ("image/jpeg", "image/png", "image/gif", "image/webp") if source.kind == "image" else ("application/pdf",)
    if source.data is None or source.mime not in known:
        return None
    return {"type": source.kind, "source": {"type": "base64", "media_type": source.mime, "data": source.data}}


def _write_gemini(source: Source) -> Json | None:
    mime = {} if source.mime is None else {"mimeType": source.mime}
    if source.data is not None:
        return {"inlineData": {"mimeType": source.mime or "application/octet-stream", "data": source.data}}
    if source.url is not None and not source.url.startswith("data:"):
        return {"fileData": {**mime, "fileUri": source.url}}
    return None


def _write_bedrock(source: Source) -> Json | None:
    """Data only; the name of a document may hold letters, digits, single spaces, hyphens and brackets."""
    word = WORDS.get(source.mime or "")
    if source.data is None or word is None:
        return None
    inner: dict[str, Json] = {"format": word, "source": {"bytes": source.data}}
    if source.kind == "document":
        inner["name"] = re.sub(r"[^A-Za-z0-9()\[\] -]+| {2,}", " ", source.name or "").strip() or "document"
    return {source.kind: inner}


def _filename(source: Source) -> str:
    return source.name or f"document.{WORDS.get(source.mime or '', 'bin')}"


def _decoded(source: Source) -> str | None:
    """The text of a text document that came as base64."""
    if source.kind != "document" or source.data is None or not (source.mime or "").startswith("text/"):
        return None
    try:
        return base64.b64decode(source.data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


WRITERS: dict[str, Callable[[Source], Json | None]] = {
    "openai-chat": _write_chat,
    "openai-responses": _write_responses,
    "anthropic": _write_anthropic,
    "gemini": _write_gemini,
    "bedrock": _write_bedrock,
}
