// One request: what became of it, what was changed and why, and on demand what it said before and after.

import { gauge } from "./conversations.js";
import { parse, show } from "./diff.js";
import { code, el, find, name } from "./dom.js";
import { ask, Refused } from "./feed.js";
import { bytes, day, dollars, exact, many, milliseconds, NONE, short, whole } from "./format.js";
import { badge } from "./requests.js";

function facts(record) {
  const of = [
    ["Conversation", name(record.conversation || NONE)],
    ["Model", name(record.model || NONE)],
    ["Upstream", name(record.upstream || NONE)],
    ["Profile", name(record.profile || NONE)],
    ["Policy", name(record.policy || NONE)],
    ["Status", record.status ? String(record.status) : NONE],
    ["Tokens in → sent", `${whole(record.tokens_in)} → ${whole(record.tokens_out)}`],
    ["Provider counted", whole(record.reported)],
    ["Body in → sent", `${bytes(record.bytes_in)} → ${bytes(record.bytes_out)}`],
    ["Cache prefix kept", exact(record.prefix_kept)],
    ["Cuts so far", record.folded ? `${record.folds}, the last one now` : String(record.folds)],
    [
      "Money",
      record.saved === null
        ? "no known price"
        : record.saved < 0
          ? `${dollars(-record.saved)} more`
          : `${dollars(record.saved)} saved`,
    ],
    ["Governing", milliseconds(record.governing)],
    ["To the first byte", record.first_byte ? milliseconds(record.first_byte) : NONE],
    ["In all", milliseconds(record.milliseconds)],
    record.error ? ["Error", name(`${record.error}${record.why && `: ${record.why}`}`, { class: "wrong" })] : null,
  ];
  return el(
    "dl",
    { class: "facts" },
    of.filter(Boolean).map(([term, value]) => el("div", {}, el("dt", { text: term }), el("dd", {}, value))),
  );
}

/** Where a rule's changes are, and why each was made. */
function reasons(record, each) {
  const told = record.reasons[each] ?? [];
  return el(
    "ul",
    { class: "reasons" },
    told.map(([where, why]) => el("li", {}, el("span", { class: "where", text: where }), name(why))),
  );
}

function known(record, each, times) {
  const fresh = record.new[each] ?? 0;
  return fresh === times ? "" : fresh ? ` · ${whole(fresh)} new` : " · none new";
}

function why(record, rules) {
  const rows = Object.entries(record.changes).map(([each, [times, tokens]]) =>
    el(
      "li",
      {},
      code(each),
      el(
        "span",
        { class: "what" },
        el("b", { text: (rules[each]?.name ?? "").replaceAll("-", " ") }),
        el("span", { text: rules[each]?.summary ?? "" }),
      ),
      el(
        "span",
        { class: "count" },
        el("b", { text: whole(times) }),
        el("small", {
          text: `${tokens < 0 ? "−" : "+"}${short(Math.abs(tokens))} tokens${rules[each]?.fits ? "" : known(record, each, times)}`,
        }),
      ),
      reasons(record, each),
    ),
  );
  if (rows.length) return el("ol", { class: "codes" }, rows);
  const said =
    record.outcome === "untouched" ? "Nothing: the very bytes that came in were sent." : "Nothing was changed.";
  return el("p", { class: "note", text: said });
}

async function contents(record, room) {
  room.replaceChildren(el("p", { class: "note", role: "status", text: "Asking the proxy…" }));
  try {
    const whole = await (await ask(`api/requests/${record.id}`)).json();
    if (whole.instance !== record.instance) throw new Refused(404); // another worker, or one that was started since
    const hunks = parse(whole.diff ?? "");
    room.replaceChildren(
      ...(hunks.length ? show(hunks) : [el("p", { class: "note", text: "Before and after are the same." })]),
    );
    room.scrollIntoView({ block: "start" });
  } catch (problem) {
    const gone = problem instanceof Refused && problem.status === 404;
    const said = gone ? "The proxy does not hold this record any more." : "The proxy does not answer.";
    room.replaceChildren(el("p", { class: "wrong", role: "alert", text: said }));
  }
}

function difference(record, summary) {
  if (record.diff) {
    const room = el("div", { class: "diff" });
    const button = el("button", { type: "button", class: "main", text: "Show before and after" });
    button.addEventListener("click", () => {
      button.hidden = true;
      contents(record, room);
    });
    return [button, room];
  }
  if (!Object.keys(record.changes).length || summary?.contents) return [];
  return [
    el(
      "p",
      { class: "note" },
      "What messages say is not kept. An operator who wants to see it sets ",
      el("code", { text: "contents = true" }),
      ".",
    ),
  ];
}

export function open(store, key) {
  const dialog = find("detail");
  const record = store.find(key);
  const close = el("button", {
    type: "button",
    class: "close",
    "aria-label": "Close",
    text: "✕",
    onclick: () => dialog.close(),
  });
  if (record === null) {
    dialog.replaceChildren(close, el("h2", { id: "detail-title", text: "This request is not held any more" }));
  } else {
    const times = Object.values(record.changes).reduce((sum, [each]) => sum + each, 0);
    dialog.replaceChildren(
      close,
      el(
        "header",
        {},
        el("h2", { id: "detail-title" }, name(`${record.method} ${record.path}`)),
        el(
          "p",
          { class: "note" },
          badge(record),
          ` ${day(record.time)} · request ${record.id}${record.stream ? " · stream" : ""}`,
        ),
      ),
      record.tokens_out === null ? "" : gauge(record),
      facts(record),
      el("h3", { text: times ? `${many(times, "change")}, and why` : "Changes" }),
      why(record, store.rules),
      ...difference(record, store.summary),
    );
  }
  if (!dialog.open) dialog.showModal();
}
