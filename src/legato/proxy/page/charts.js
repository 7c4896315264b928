// Small charts, as SVG. Each stretches to its box; lines keep their width.

import { svg } from "./dom.js";

const WIDE = 300;
const NEAR = 0.3; // from this share of the budget on it is drawn; below that the gauge tells enough

function frame(height, label, ...children) {
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDE} ${height}`, preserveAspectRatio: "none", class: "chart", role: "img", "aria-label": label },
    ...children,
  );
}

function line(points) {
  return points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

/** Whether a request broke the cached prefix: by more than its last message or two. */
export function moved(record) {
  return record.prefix_kept !== null && record.prefix_kept < 0.9;
}

/** A conversation, request by request: what came in over what was sent, below the budget. */
export function sawtooth(records, label) {
  const height = 72;
  const budget = records.at(-1).budget;
  const most = Math.max(...records.map((record) => record.tokens_in), ...records.map((record) => record.tokens_out), 1);
  const near = budget !== null && most > budget * NEAR;
  const top = near ? Math.max(budget * 1.12, Math.min(most * 1.05, budget * 2.4)) : most * 1.4;
  const step = WIDE / Math.max(records.length - 1, 1);
  const shown = records.length === 1 ? [records[0], records[0]] : records;
  const place = (tokens, at) => [at * step, height - (height - 2) * Math.min(tokens / top, 1.05)];
  const sent = shown.map((record, at) => place(record.tokens_out, at));
  const came = shown.map((record, at) => place(record.tokens_in, at));
  const cuts = shown.flatMap((record, at) => (moved(record) && at ? [place(record.tokens_out, at)[0]] : []));
  const over = `${line(came)}${line([...sent].reverse()).replace("M", "L")}Z`;
  return frame(
    height,
    label,
    svg("path", { class: "saved", d: over }),
    svg("path", { class: "area", d: `${line(sent)}L${WIDE} ${height}L0 ${height}Z` }),
    cuts.map((x) => svg("path", { class: "cut", d: `M${x.toFixed(1)} 0V${height}` })),
    svg("path", { class: "came", d: line(came) }),
    svg("path", { class: "sent", d: line(sent) }),
    near ? svg("path", { class: "budget", d: line([place(budget, 0), [WIDE, place(budget, 0)[1]]]) }) : null,
  );
}

/** The newest values as bars, the last at the right. `most` is what the highest bar stands for. */
export function bars(values, most, label, room = 60) {
  const height = 30;
  const step = WIDE / room;
  const newest = values.slice(-room);
  const first = room - newest.length;
  const drawn = newest.map((value, at) => {
    const tall = Math.max(1.5, height * Math.min(1, value / (most || 1)));
    return svg("rect", {
      x: ((first + at) * step).toFixed(2),
      y: (height - tall).toFixed(2),
      width: (step * 0.68).toFixed(2),
      height: tall.toFixed(2),
    });
  });
  return frame(height, label, svg("path", { class: "ground", d: `M0 ${height}H${WIDE}` }), ...drawn);
}

/** Shares of a whole, side by side: pairs of a class and a number. */
export function split(parts, label) {
  const whole = parts.reduce((sum, [, value]) => sum + value, 0) || 1;
  let x = 0;
  const drawn = parts
    .filter(([, value]) => value > 0)
    .map(([kind, value]) => {
      const width = (WIDE * value) / whole;
      const part = svg("rect", {
        class: kind,
        x: x.toFixed(2),
        y: 0,
        width: Math.max(width - 1.5, 1).toFixed(2),
        height: 10,
      });
      x += width;
      return part;
    });
  return frame(10, label, drawn.length ? drawn : svg("rect", { class: "idle", width: WIDE, height: 10 }));
}
