// What was changed, by rule: what would have been refused, and what had to be made smaller.

import { code, el, find } from "./dom.js";
import { many, short, whole } from "./format.js";

/** What would have been refused is counted once a conversation, what was made to fit in each request. */
function row([each, [requests, times, tokens, faults]], rule, most) {
  const count = rule.fits ? requests : faults;
  const bar = el("i", { class: rule.fits ? "bar fits" : "bar" });
  bar.style.inlineSize = `${(100 * count) / most}%`;
  const under = rule.fits ? many(times, "change") : `in ${many(requests, "request")}`;
  const cost = tokens ? `${tokens < 0 ? "−" : "+"}${short(Math.abs(tokens))} tokens` : "";
  return el(
    "li",
    {},
    code(each),
    el(
      "span",
      { class: "what" },
      el("b", { text: rule.name.replaceAll("-", " ") }),
      el("span", { text: rule.summary }),
    ),
    el(
      "span",
      { class: "count" },
      el("b", { text: whole(count) }),
      el("small", { text: [under, cost].filter(Boolean).join(" · ") }),
    ),
    el("span", { class: "track", "aria-hidden": "true" }, bar),
  );
}

let drawn = "";

export function draw(store) {
  const { changes, requests } = store.totals;
  const state = JSON.stringify([changes, requests === 0]);
  if (state === drawn) return;
  drawn = state;
  const known = Object.entries(changes).filter(([each]) => store.rules[each]);
  const group = (title, unit, fits, at) => {
    const rows = known.filter(([each]) => store.rules[each].fits === fits).sort(([, a], [, b]) => b[at] - a[at]);
    const most = Math.max(...rows.map(([, counts]) => counts[at]), 1);
    if (!rows.length) return [];
    return [
      el("h3", { text: title }, el("small", { text: unit })),
      el(
        "ol",
        { class: "codes" },
        rows.map((each) => row(each, store.rules[each[0]], most)),
      ),
    ];
  };
  const none = el("p", {
    class: "empty",
    text: requests ? "Nothing so far: every request was in order, and went on as it came." : "Nothing so far.",
  });
  const groups = [
    ...group("Would have been refused", "faults, each once a conversation", false, 3),
    ...group("Made to fit the window", "requests", true, 0),
  ];
  find("changes").replaceChildren(...(groups.length ? groups : [none]));
}
