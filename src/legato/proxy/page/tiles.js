// The figures at the top: what all requests since the start come to.

import { bars, moved, split } from "./charts.js";
import { el, find } from "./dom.js";
import { dollars, exact, many, milliseconds, NONE, quantile, short, whole } from "./format.js";

const GOVERNED = new Set(["untouched", "governed", "failed"]);
const NEWEST = 60;

function tile(title, value, under, chart) {
  return el(
    "article",
    { class: "tile" },
    el("h2", { text: title }),
    el("p", { class: "value", text: value }),
    chart,
    el("p", { class: "under", text: under }),
  );
}

function requests({ requests, outcomes }, active) {
  const of = (...names) => names.reduce((sum, name) => sum + (outcomes[name] ?? 0), 0);
  const parts = [
    ["untouched", of("untouched")],
    ["governed", of("governed")],
    ["passed", of("passed")],
    ["wrong", of("failed", "refused", "gone")],
  ];
  const said = `${whole(of("governed"))} governed`;
  const chart = split(parts, parts.map(([name, value]) => `${value} ${name}`).join(", "));
  return tile(
    "Requests",
    whole(requests),
    active ? `${said} · ${whole(active)} now` : `${said} · ${whole(of("untouched"))} untouched`,
    chart,
  );
}

function tokens({ tokens_in: came, tokens_out: sent }) {
  const saved = came - sent;
  const chart = split(
    [
      ["untouched", Math.max(Math.min(came, sent), 0)],
      ["spared", Math.max(saved, 0)],
    ],
    `${whole(sent)} of ${whole(came)} tokens were sent`,
  );
  return tile(
    saved < 0 ? "Tokens added" : "Tokens saved",
    short(Math.abs(saved)),
    `${short(sent)} sent of ${short(came)}`,
    chart,
  );
}

function money({ saved, priced, requests }, records) {
  if (!priced) return tile("Money saved", NONE, "no known price yet", bars([], 1, "no prices"));
  let sum = 0;
  const run = records.filter((record) => record.saved !== null).map((record) => (sum += record.saved));
  const under = priced === requests ? "every model has a price" : `${whole(priced)} of ${whole(requests)} have a price`;
  return tile(
    saved < 0 ? "Money spent" : "Money saved",
    dollars(Math.abs(saved)),
    under,
    bars(
      run.map((value) => Math.max(value, 0)),
      Math.max(...run, 0),
      "money saved so far",
    ),
  );
}

function prefix({ kept, repeated }, records) {
  const shares = records.filter((record) => record.prefix_kept !== null).map((record) => record.prefix_kept);
  const value = repeated ? exact(kept / repeated) : NONE;
  const broke = records.filter(moved).length;
  return tile(
    "Cache prefix kept",
    value,
    !shares.length
      ? "nothing was sent twice yet"
      : broke
        ? `broken by ${whole(broke)} of ${whole(shares.length)}`
        : "never broken",
    bars(shares, 1, "prefix kept by the newest requests"),
  );
}

function prevented({ faults, mended, fitted }) {
  const chart = split(
    [
      ["governed", mended],
      ["spared", fitted],
    ],
    `${mended} requests would have been refused, ${fitted} were made smaller`,
  );
  const under = `${many(mended, "request")} · ${whole(fitted)} fitted`;
  return tile("Errors prevented", whole(faults), under, chart);
}

function latency(records) {
  const times = records.filter((record) => GOVERNED.has(record.outcome)).map((record) => record.governing);
  if (!times.length) return tile("Latency added", NONE, "nothing governed yet", bars([], 1, "no requests"));
  const high = quantile(times, 0.95);
  return tile(
    "Latency added",
    milliseconds(quantile(times, 0.5)),
    `median; p95 ${milliseconds(high)}`,
    bars(times, Math.max(high, ...times.slice(-NEWEST)), "time to govern the newest requests"),
  );
}

export function draw(store) {
  const { totals, records } = store;
  const active = store.summary?.active ?? 0;
  find("tiles").replaceChildren(
    requests(totals, active),
    tokens(totals),
    money(totals, records),
    prefix(totals, records),
    prevented(totals),
    latency(records),
  );
}
