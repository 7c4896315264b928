// The requests, the newest first. Rows stay as they are; new ones are put before them.

import { moved } from "./charts.js";
import { code, el, find, name } from "./dom.js";
import { clock, exact, milliseconds, NONE, short } from "./format.js";

const MOST = 200; // rows
const CODES = 3; // in a row
const WRONG = new Set(["failed", "refused", "gone"]);

const WHICH = {
  all: () => true,
  changed: (record) => Object.keys(record.changes).length > 0,
  moved,
  wrong: (record) => WRONG.has(record.outcome) || record.status >= 400 || record.error !== "",
};

export const filter = { which: "all", words: "", only: null };

function matches(record) {
  if (!WHICH[filter.which](record)) return false;
  if (filter.only !== null && JSON.stringify([record.upstream, record.conversation]) !== filter.only) return false;
  if (!filter.words) return true;
  const text = [
    record.conversation,
    record.model,
    record.path,
    record.upstream,
    record.outcome,
    record.status,
    record.error,
    ...Object.keys(record.changes),
  ];
  return text.join(" ").toLowerCase().includes(filter.words);
}

/** What became of a request, as a badge. */
export function badge(record) {
  const bad = record.status >= 400 && !WRONG.has(record.outcome);
  const words = bad ? `${record.outcome} ${record.status}` : record.outcome;
  return el("span", {
    class: `badge ${bad ? "wrong" : WRONG.has(record.outcome) ? "wrong" : record.outcome}`,
    text: words,
  });
}

function codes(record) {
  const all = Object.entries(record.changes);
  const shown = all
    .slice(0, CODES)
    .map(([each, [times]]) =>
      el("span", { class: "chip" }, code(each), times > 1 ? el("small", { text: `×${times}` }) : null),
    );
  if (record.folded)
    shown.unshift(el("span", { class: "mark", text: "cut", title: "The cut moved with this request" }));
  if (record.retried)
    shown.unshift(
      el("span", { class: "mark", text: "retried", title: "Refused for its length, and sent again smaller" }),
    );
  return all.length > CODES ? [...shown, el("small", { class: "note", text: `+${all.length - CODES}` })] : shown;
}

function cell(kind, ...children) {
  return el("td", { class: kind }, ...children);
}

function row(record, fresh) {
  const href = `#request/${record.key}`;
  const mended = Object.keys(record.changes).length > 0;
  const saved = (record.tokens_in ?? 0) - (record.tokens_out ?? 0);
  const pick = (event) => {
    if (!event.target.closest("a") && !String(window.getSelection())) location.hash = href;
  };
  return el(
    "tr",
    { class: [fresh ? "fresh" : "", mended ? "mended" : ""].join(" ").trim(), "data-key": record.key, onclick: pick },
    cell(
      "time",
      el("a", { href, text: clock(record.time), "aria-label": `Request at ${clock(record.time)}, ${record.outcome}` }),
    ),
    cell("outcome", badge(record)),
    cell("conversation", record.conversation ? name(record.conversation) : name(record.path, { class: "path" })),
    cell("model", name(record.model || NONE)),
    cell("number came", short(record.tokens_in)),
    cell(saved > 0 ? "number sent less" : "number sent", short(record.tokens_out)),
    cell("changes", codes(record)),
    cell(moved(record) ? "number prefix low" : "number prefix", exact(record.prefix_kept)),
    cell("number added", record.governing ? milliseconds(record.governing) : NONE),
    cell("number total", milliseconds(record.milliseconds)),
  );
}

function waiting(record) {
  const since = Math.max(0, Date.now() - record.time * 1_000);
  return el(
    "tr",
    { class: "waiting" },
    cell("time", clock(record.time)),
    cell(
      "outcome",
      el("span", { class: "badge now" }, el("i", { class: "dot" }), record.status ? "streaming" : "waiting"),
    ),
    cell("conversation", name(record.conversation || record.path)),
    cell("model", name(record.model || NONE)),
    cell("number came", short(record.tokens_in)),
    cell("number sent", short(record.tokens_out)),
    cell("changes", codes(record)),
    cell("number prefix", NONE),
    cell("number added", record.governing ? milliseconds(record.governing) : NONE),
    cell("number total", milliseconds(since)),
  );
}

let drawn = null;

export function draw(store, again = false) {
  const body = find("rows");
  const all = store.records.filter(matches).reverse().slice(0, MOST);
  if (again || drawn === null) {
    body.replaceChildren(...all.map((record) => row(record, false)));
  } else {
    const fresh = all.filter((record) => !drawn.has(record.key));
    for (const record of fresh.reverse()) body.prepend(row(record, true));
    while (body.children.length > MOST) body.lastElementChild.remove();
  }
  drawn = new Set([...body.children].map((each) => each.dataset.key));
  find("under-way").replaceChildren(...store.underWay.filter(matches).map(waiting));
  const empty = !body.children.length && !find("under-way").children.length;
  find("nothing").hidden = !empty;
  document.querySelector("#requests table").hidden = empty;
  if (empty) find("nothing").replaceChildren(...nothing(store));
}

function nothing(store) {
  if (store.records.length) return [el("p", { text: "No request is like that." })];
  const url = location.origin;
  const lines = [`OPENAI_BASE_URL=${url}/v1 your-agent`, `ANTHROPIC_BASE_URL=${url} your-agent`];
  return [
    el("p", { text: "No request yet. Give an agent this proxy's address, and change nothing else:" }),
    el("pre", { tabindex: 0, text: lines.join("\n") }),
  ];
}

/** Up and down go from row to row. */
export function walk(event) {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const row = document.activeElement?.closest?.("#rows tr");
  if (!row) return;
  const next = event.key === "ArrowDown" ? row.nextElementSibling : row.previousElementSibling;
  next?.querySelector(".time a").focus();
  event.preventDefault();
}
