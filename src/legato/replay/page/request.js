// One request: what it holds, what was changed and why, and what its answer would have missed.

const SHOWN = 12;

function detail(replay, state, choose) {
  const policy = replay.policies[state.policy], at = state.request, { requests, texts } = replay;
  if (at >= requests.turn.length) return [el("p", { class: "empty", text: "No request was made in this session." })];
  const faults = requests.refused[at] ?? [];
  return [
    summary(replay, policy, at),
    faults.length ? el("p", { class: "notice" }, "As recorded the provider would refuse it: ", ...faults.flatMap((code) => [chip(texts[code]), " "])) : null,
    el("div", { class: "halves" },
      el("div", {}, changes(replay, policy, at), lost(replay, policy, at)),
      el("div", {}, beside(replay, state, choose), asked(replay, at))),
  ].filter(Boolean);
}

function chip(code) {
  const [name, about, size] = mean(code);
  return el("span", { class: `code ${size ? "fits" : ""}`, title: about }, foreign(code), name === code ? null : ` ${name}`);
}

function summary(replay, policy, at) {
  const tokens = policy.tokens[at], failure = policy.failure[at], over = policy.over.includes(at);
  const facts = [["Whole history", `${count(replay.requests.tokens[at])} tokens`]];
  if (failure !== undefined) facts.push(["Sent", "nothing"]);
  else facts.push(["Sent", `${count(tokens)} tokens, ${plural(policy.messages[at], "message")}`]);
  if (failure === undefined && !over) {
    facts.push(["From the cache", `${percent(policy.cached[at] / Math.max(1, tokens))}`], ["Cost", money(policy.cost[at])]);
    const begins = policy.common[at] < 0 ? "nothing" : plural(policy.common[at], "message");
    facts.push(["Same as before", at === 0 ? "the first" : begins]);
  }
  facts.push(["Evidence", replay.requests.used[at] ? `${count(policy.kept[at])} of ${plural(replay.requests.used[at], "name")}` : "none used"]);
  if (replay.requests.reported[at] !== null) facts.push(["Counted by the provider", count(replay.requests.reported[at])]);
  if (replay.requests.time[at] !== null) facts.push(["At", new Date(1000 * replay.requests.time[at]).toISOString().slice(0, 19).replace("T", " ")]);
  const why = failure !== undefined ? replay.texts[failure] : over ? "More than the window takes: the provider would refuse it." : null;
  const parts = BANDS.map(([name, kinds, kind]) => [name, kinds.reduce((sum, each) => sum + policy.kinds[each][at], 0), kind]);
  const whole = Math.max(1, ...[tokens]);
  return el("div", { class: "summary" },
    el("dl", { class: "facts" }, ...facts.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value })))),
    why ? el("p", { class: "wrong" }, foreign(why)) : null,
    policy.broke.includes(at) ? el("p", { class: "broken", text: "Something that was sent before was changed here: the cache holds only what stands before it." }) : null,
    tokens ? el("div", { class: "mix", role: "img", "aria-label": parts.map(([name, size]) => `${name} ${count(size)}`).join(", ") }, ...parts.filter(([, size]) => size).map(([name, size, kind]) => {
      const piece = el("i", { class: kind, title: `${name}: ${count(size)} tokens` });
      piece.style.flexGrow = size / whole;
      return piece;
    })) : null);
}

function changes(replay, policy, at) {
  const { texts } = replay, edits = policy.edits[at] ?? [];
  const standing = policy.tables[policy.changes[at]] ?? [];
  const list = el("ol", { class: "edits" }, ...edits.slice(0, SHOWN).map((edit) => change(replay, edit)));
  const more = edits.length > SHOWN ? el("button", { type: "button", class: "more", text: `${count(edits.length - SHOWN)} more`, onclick: () => {
    list.append(...edits.slice(SHOWN).map((edit) => change(replay, edit)));
    more.remove();
  } }) : null;
  return el("section", {}, el("h3", { text: "Changed for the first time" }),
    edits.length ? list : el("p", { class: "note", text: policy.failure[at] !== undefined ? "Nothing was sent." : "Nothing new." }), more,
    standing.length ? el("p", { class: "note standing" }, "All that is changed in it: ", ...standing.flatMap(([code, times]) => [chip(texts[code]), ` ×${count(times)}  `])) : null);
}

function change(replay, [code, at, tokens, reason]) {
  const { texts, messages } = replay;
  const where = at === null ? "the head" : `message ${at + 1}`;
  const head = [el("span", {}, chip(texts[code]), " ", foreign(texts[reason], { class: "why" })), el("b", { class: tokens < 0 ? "less" : "more-tokens", text: `${tokens > 0 ? "+" : tokens < 0 ? "−" : "±"}${count(Math.abs(tokens))}` })];
  const place = el("span", { class: "where" }, where);
  if (at === null || messages.role[at] === undefined) return el("li", {}, ...head, place);
  place.append(", ", foreign(texts[messages.role[at]]), `, ${count(messages.tokens[at])} tokens`);
  return el("li", {}, ...head, content(replay, at, place));
}

// A message as it was recorded, opened when it is asked for.
function content(replay, at, label) {
  const text = replay.messages.text[at];
  if (text === null || text === undefined) return label;
  const opened = el("details", {}, el("summary", {}, label));
  opened.addEventListener("toggle", () => {
    if (opened.open && opened.childElementCount === 1) opened.append(el("pre", {}, foreign(replay.texts[text] || "(no text)")));
  });
  return opened;
}

function lost(replay, policy, at) {
  const names = policy.lost[at] ?? [];
  if (!names.length) return null;
  return el("section", {}, el("h3", { text: "Used by the answer, and no longer there" }),
    el("ul", { class: "names" }, ...names.slice(0, 200).map((name) => el("li", {}, foreign(replay.texts[name])))));
}

function beside(replay, state, choose) {
  const at = state.request;
  const rows = replay.policies.map((policy, nth) => {
    const failed = policy.failure[at] !== undefined || policy.over.includes(at);
    const cell = (text, kind) => el("td", { class: `number ${kind ?? ""}`, text });
    return el("tr", { class: nth === state.policy ? "chosen" : "can", onclick: () => choose(nth) },
      el("th", { scope: "row" }, swatch(nth), foreign(policy.name)), cell(policy.failure[at] !== undefined ? "–" : short(policy.tokens[at])),
      cell(failed ? "refused" : percent(policy.cached[at] / Math.max(1, policy.tokens[at])), failed ? "wrong" : null), cell(failed ? "–" : money(policy.cost[at])),
      cell((policy.lost[at] ?? []).length ? `−${count(policy.lost[at].length)}` : "", "wrong"), cell(policy.broke.includes(at) ? "broken" : "", "low"));
  });
  const head = el("tr", {}, ...["Under each policy", "tokens", "cached", "cost", "lost", "prefix"].map((text, nth) => el("th", { scope: "col", class: nth ? "number" : null, text })));
  return el("section", { class: "scroll" }, el("table", { class: "beside" }, el("thead", {}, head), el("tbody", {}, ...rows)));
}

function asked(replay, at) {
  const { requests, messages, texts } = replay;
  const from = at === 0 ? Math.max(0, requests.at[0] - 3) : requests.end[at - 1];
  const line = (nth) => el("li", {}, content(replay, nth, el("span", { class: "where" }, `message ${nth + 1}, `, foreign(texts[messages.role[nth]]), `, ${count(messages.tokens[nth])} tokens`)));
  const between = (start, end) => Array.from({ length: Math.max(0, Math.min(end, messages.role.length) - start) }, (_, nth) => line(start + nth)).slice(-12);
  return el("section", { class: "said" }, el("h3", { text: "What came with it" }), el("ul", {}, ...between(from, requests.at[at])),
    el("h3", { text: "The recorded answer" }), el("ul", {}, ...between(requests.at[at], requests.end[at])));
}
