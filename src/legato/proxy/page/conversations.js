// A card each conversation: how full its context is, and how it got there.

import { moved, sawtooth } from "./charts.js";
import { el, find, name } from "./dom.js";
import { many, short, share, whole } from "./format.js";

const MOST = 24;

/** A gauge: what was sent against the budget, and behind it what came in. */
export function gauge({ tokens_in: came, tokens_out: sent, budget }) {
  if (budget === null) return el("p", { class: "gauge none", text: "no window is known: nothing is cut" });
  const full = sent / budget;
  const words = `${whole(sent)} of ${whole(budget)} tokens`;
  const bar = el("i", { class: "fill" });
  bar.style.inlineSize = share(Math.min(full, 1), 1);
  const ghost = el("i", { class: "ghost" });
  ghost.style.inlineSize = share(Math.min(came / budget, 1), 1);
  return el(
    "div",
    {
      class: "gauge",
      role: "meter",
      "aria-label": "Context",
      "aria-valuemin": 0,
      "aria-valuemax": budget,
      "aria-valuenow": Math.min(sent, budget),
      "aria-valuetext": words,
    },
    ghost,
    bar,
  );
}

function card({ key, name: title, records }, chosen, choose) {
  const last = records.at(-1);
  const cuts = records.filter(moved).length;
  const part = last.budget === null ? null : last.tokens_out / last.budget;
  const full = part === null ? short(last.tokens_out) : part < 0.005 ? "<1%" : share(part);
  const of = last.budget === null ? "tokens" : `of ${short(last.budget)}`;
  const saved = last.tokens_in - last.tokens_out;
  const facts = [
    many(records.length, "request"),
    records.length > 1
      ? cuts
        ? `prefix broken ${cuts === 1 ? "once" : `${cuts} times`}`
        : "prefix never broken"
      : null,
    saved > 0 ? `${short(saved)} spared now` : null,
  ];
  const said = `${records.length} requests; came in ${whole(last.tokens_in)}, sent ${whole(last.tokens_out)} tokens`;
  return el(
    "button",
    {
      type: "button",
      class: "card",
      "aria-pressed": String(key === chosen),
      "data-key": key,
      onclick: () => choose(key === chosen ? null : key, title),
    },
    el(
      "span",
      { class: "head" },
      name(title, { class: "title" }),
      el("span", { class: "full" }, el("b", { text: full }), ` ${of}`),
    ),
    el("span", { class: "model" }, name(last.model || "no model"), " · ", name(last.upstream)),
    sawtooth(records, said),
    gauge(last),
    el("span", { class: "facts", text: facts.filter(Boolean).join(" · ") }),
  );
}

let drawn = "";

export function draw(store, chosen, choose) {
  const all = store.conversations;
  const state = JSON.stringify([chosen, all.map(({ key, records }) => [key, records.length, records.at(-1).key])]);
  if (state === drawn) return; // so that nothing under the pointer or the focus is taken away without need
  drawn = state;
  const room = find("conversations");
  const focused = room.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const cards = all.slice(0, MOST).map((each) => card(each, chosen, choose));
  const more =
    all.length > MOST ? el("p", { class: "note", text: `and ${many(all.length - MOST, "older one")}` }) : null;
  const none = el("p", {
    class: "empty",
    text: "No conversation yet. Each gets a gauge here with its first governed request.",
  });
  room.replaceChildren(...(cards.length ? cards : [none]), ...(more ? [more] : []));
  if (focused !== null) [...room.children].find((child) => child.dataset?.key === focused)?.focus();
}
