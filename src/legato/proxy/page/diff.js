// Before and after, side by side: the report's diff, a piece a message.

import { el } from "./dom.js";
import { many } from "./format.js";

const FIRST = 40; // pieces that are drawn at once
const LONG = 4_000; // characters of a line that are drawn at once
const TITLE = /^@@ (.*) @@$/;

/** The pieces of a diff: a title, and pairs of what stood left and stands right. */
export function parse(text) {
  const pieces = [];
  let removed = [];
  const flush = (added = []) => {
    const pairs = Math.max(removed.length, added.length);
    for (let at = 0; at < pairs; at++) pieces.at(-1).pairs.push({ old: removed[at] ?? null, new: added[at] ?? null });
    removed = [];
  };
  let added = [];
  for (const line of text ? text.split("\n") : []) {
    const title = TITLE.exec(line);
    if (title || (line[0] !== "-" && line[0] !== "+")) {
      if (pieces.length) flush(added);
      added = [];
    }
    if (title) pieces.push({ title: title[1], pairs: [] });
    else if (!pieces.length) continue;
    else if (line[0] === "-") {
      if (added.length) {
        flush(added);
        added = [];
      }
      removed.push(line.slice(1));
    } else if (line[0] === "+") added.push(line.slice(1));
    else pieces.at(-1).pairs.push({ same: line.slice(1) });
  }
  if (pieces.length) flush(added);
  return pieces;
}

function line(kind, text) {
  if (text === null) return el("td", { class: "blank" });
  if (text.length <= LONG) return el("td", { class: kind, text: text || " " });
  const more = el("button", { type: "button", class: "more", text: `… ${many(text.length - LONG, "character")} more` });
  const found = el("td", { class: kind }, text.slice(0, LONG), more);
  more.addEventListener("click", () => (found.textContent = text));
  return found;
}

function piece({ title, pairs }) {
  const rows = pairs.map((pair) =>
    "same" in pair
      ? el("tr", { class: "same" }, line("", pair.same), line("", pair.same))
      : el("tr", {}, line("old", pair.old), line("new", pair.new)),
  );
  return el(
    "section",
    { class: "piece" },
    el("h4", { text: title }),
    el(
      "table",
      {},
      el(
        "thead",
        {},
        el("tr", {}, el("th", { scope: "col", text: "Before" }), el("th", { scope: "col", text: "After" })),
      ),
      el("tbody", {}, rows),
    ),
  );
}

/** The pieces as elements, the first of them at once. */
export function show(pieces) {
  const first = pieces.slice(0, FIRST).map(piece);
  if (pieces.length <= FIRST) return first;
  const more = el("button", {
    type: "button",
    class: "main",
    text: `Show ${many(pieces.length - FIRST, "more message")}`,
  });
  more.addEventListener("click", () => more.replaceWith(...pieces.slice(FIRST).map(piece)));
  return [...first, more];
}
