// The policies side by side, and what each keeps by age.

function policiesTable(policies, chosen, choose) {
  const dearest = Math.max(...policies.map(({ totals }) => totals.cost), 0);
  const longest = Math.max(...policies.map(({ totals }) => totals.tokens), 0);
  const whole = (totals) => totals.requests && totals.refused === totals.requests;
  const head = el("tr", {}, ...["Policy", "Money", "Evidence kept", "Tokens sent", "Cached", "Breaks", "Refused", "Governing"].map((text, at) => el("th", { scope: "col", class: at ? "number" : null, text })));
  const rows = policies.map(({ name, about, source, totals }, nth) => {
    const label = choose
      ? el("button", { type: "button", class: "pick", "aria-pressed": String(nth === chosen), onclick: () => choose(nth) }, swatch(nth), foreign(name))
      : el("span", { class: "pick" }, swatch(nth), foreign(name));
    const cell = (text, extra, kind) => el("td", { class: `number ${kind ?? ""}` }, el("span", { text }), extra);
    const row = el("tr", { class: choose ? (nth === chosen ? "chosen" : "can") : null, onclick: choose ? () => choose(nth) : null },
      el("th", { scope: "row" }, label, el("small", { class: "about" }, foreign(about, { title: source || null }))),
      cell(whole(totals) ? "–" : money(totals.cost), bar(dearest ? totals.cost / dearest : 0, "money")),
      cell(totals.used ? percent(totals.evidence, 1) : "–", bar(totals.used ? totals.evidence : 0, "kept")),
      cell(short(totals.tokens), bar(longest ? totals.tokens / longest : 0, "sent")),
      cell(totals.tokens ? percent(totals.share) : "–"),
      cell(count(totals.breaks)),
      cell(totals.refused ? `${count(totals.refused)} of ${count(totals.requests)}` : "0", null, totals.refused ? "wrong" : null),
      cell(`${totals.ms < 10 ? totals.ms.toFixed(1) : count(totals.ms)} ms`));
    return row;
  });
  return el("table", { class: "policies" }, el("thead", {}, head), el("tbody", {}, ...rows));
}

function agesTable(policies) {
  const head = el("tr", {}, el("th", { scope: "col", text: "Policy" }), ...OVERVIEW.ages.map((age) => el("th", { scope: "col", class: "number", text: age })));
  const used = el("tr", { class: "used" }, el("th", { scope: "row", text: "names used" }), ...policies[0].totals.ages.map((age) => el("td", { class: "number", text: count(age.used) })));
  const rows = policies.map(({ name, totals }, nth) => el("tr", {}, el("th", { scope: "row" }, swatch(nth), foreign(name)), ...totals.ages.map((age) => {
    const share = age.used ? age.kept / age.used : null;
    const cell = el("td", { class: "number heat", text: share === null ? "–" : percent(share), title: `${count(age.kept)} of ${count(age.used)}` });
    if (share !== null) cell.style.setProperty("--share", `${Math.round(100 * share)}%`);
    return cell;
  })));
  return el("table", { class: "ages" }, el("thead", {}, head), el("tbody", {}, used, ...rows));
}

function facts(replay) {
  const { price } = replay;
  const perMillion = `$${price.input} in, $${price.cached ?? price.input} cached, $${price.output} out for a million tokens`;
  const rows = [
    ["Model", replay.model ?? "not named"], ["Rules of", replay.profile], ["Window", count(replay.window)],
    ["Budget of a request", count(replay.budget)], ["Requests", count(replay.requests.turn.length)], ["Messages", count(replay.messages.role.length)],
    ["Prices", `${price.name || "–"}: ${perMillion} (${price.date}; cache ${price.how})`], ["Read as", `${replay.source} (${replay.format})`],
  ];
  return rows.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", {}, foreign(value))));
}

function optimum(found) {
  if (!found) return null;
  const beside = (what, cost) => cost === null ? "" : `${what} ${money(cost)} (${found.policy} is ${percent(found.than / cost - 1)} above)`;
  const said = [beside("the cheapest cuts that know the future", found.cost), beside("those made only when they must be", found.pressed)].filter(Boolean);
  return `At no less evidence: ${said.join("; ")}. ${found.kind === "exact" ? "Exact." : "A bound: nothing can be below it."}`;
}
