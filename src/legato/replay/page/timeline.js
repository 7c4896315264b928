// The context under one policy: what each request holds by kind, where it was folded, and where the cache broke.

// From the bottom: what hardly changes is below.
const BANDS = [["tools and system", [0, 1], "kind-system"], ["user", [2], "kind-user"], ["assistant", [3], "kind-assistant"], ["tool results", [4], "kind-tool"]];

function stacked(policy) {
  const sums = [];
  let below = policy.tokens.map(() => 0);
  for (const [, kinds] of BANDS) {
    below = below.map((value, at) => value + kinds.reduce((sum, kind) => sum + policy.kinds[kind][at], 0));
    sums.push(below);
  }
  return sums;
}

function folds(policy, replay) {
  const size = (row) => policy.edits[row].some(([code]) => mean(replay.texts[code])[2]);
  return Object.keys(policy.edits).filter(size).map(Number);
}

const refusedRows = (policy) => [...policy.over, ...Object.keys(policy.failure).map(Number)].sort((a, b) => a - b);

function timeline(replay, state) {
  const policy = replay.policies[state.policy];
  const number = policy.tokens.length;
  const sums = stacked(policy);
  const refused = new Set(refusedRows(policy));
  const taken = policy.tokens.filter((_, at) => !refused.has(at));
  const fullest = Math.max(1, ...taken);
  const limit = replay.window - replay.output;
  const near = fullest > 0.3 * replay.budget || refused.size > 0;
  const top = near ? Math.max(limit * 1.08, fullest * 1.08) : fullest * 1.3;
  const clip = (values) => values.map((value) => Math.min(value, 2 * top));
  const steps = uPlot.paths.stepped({ align: 1 });
  const smooth = number > 600 ? uPlot.paths.linear() : steps;
  const band = (nth) => ({ fill: colour(BANDS[nth][2]), stroke: colour("panel", number > 400 ? 0 : 0.5), width: number > 400 ? 0 : 0.5, paths: smooth, points: { show: number < 2 } });
  const layers = BANDS.map((_, nth) => nth).reverse();
  const made = canvas("context", {
    scales: { x: { time: false, range: (_, low, high) => spread(low, high, number) }, y: { range: () => [0, top] } },
    axes: axes(short, number),
    series: [{}, ...layers.map(band),
      { stroke: colour("ink", 0.55), width: 1.2, dash: [2, 3], paths: smooth, points: { show: false } },
      { stroke: colour("cached"), width: 1.3, paths: smooth, points: { show: false } }],
    hooks: {
      drawClear: [(chart) => shadeRefused(chart, refused)],
      draw: [(chart) => { marks(chart, policy, replay, near ? [["budget", replay.budget], ["limit", limit]] : []); mark(chart, state.request); }],
      setCursor: [(chart) => readout(replay, policy, chart.cursor.idx ?? state.request)],
    },
  }, [replay.requests.turn.map((_, nth) => nth), ...layers.map((nth) => clip(sums[nth])), clip(replay.requests.tokens), policy.cached], (nth) => select({ request: nth }));
  readout(replay, policy, state.request);
  legend(policy, replay, refused.size, near);
  return made;
}

function shadeRefused(chart, refused) {
  const { ctx, bbox } = chart;
  if (!refused.size) return;
  ctx.save();
  ctx.fillStyle = colour("red-wash");
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const [from, to] of spans([...refused].sort((a, b) => a - b))) {
    const left = chart.valToPos(from, "x", true);
    ctx.fillRect(left, bbox.top, Math.max(devicePixelRatio, chart.valToPos(to + 1, "x", true) - left), bbox.height);
  }
  ctx.restore();
}

function spans(sorted) {
  const found = [];
  for (const at of sorted) {
    const last = found.at(-1);
    if (last && last[1] === at - 1) last[1] = at;
    else found.push([at, at]);
  }
  return found;
}

function marks(chart, policy, replay, levels) {
  const { ctx, bbox } = chart;
  const dpr = devicePixelRatio;
  const inside = (x) => x >= bbox.left - 1 && x <= bbox.left + bbox.width + 1;
  ctx.save();
  ctx.font = `${11 * dpr}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  for (const [name, level] of levels) {
    const y = chart.valToPos(level, "y", true);
    ctx.strokeStyle = ctx.fillStyle = colour(name === "budget" ? "amber" : "red");
    ctx.setLineDash([6 * dpr, 4 * dpr]);
    ctx.lineWidth = 1.2 * dpr;
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    const label = `${name} ${short(level)}`, at = name === "budget" ? bbox.left + 8 * dpr : bbox.left + bbox.width - ctx.measureText(label).width - 8 * dpr;
    ctx.setLineDash([]);
    ctx.lineJoin = "round";
    ctx.strokeStyle = colour("panel");
    ctx.lineWidth = 4 * dpr;
    ctx.textBaseline = name === "budget" ? "top" : "bottom";
    const beside = y + (name === "budget" ? 3 : -2) * dpr;
    ctx.strokeText(label, at, beside);
    ctx.fillText(label, at, beside);
  }
  ctx.lineWidth = 1.2 * dpr;
  ctx.setLineDash([1 * dpr, 3 * dpr]);
  ctx.strokeStyle = colour("amber", policy.broke.length > 150 ? 0.45 : 0.9);
  for (const at of policy.broke) {
    const x = chart.valToPos(at, "x", true);
    if (!inside(x)) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.setLineDash([]);
  ctx.fillStyle = colour("accent");
  const half = 4 * dpr;
  for (const at of folds(policy, replay)) {
    const x = chart.valToPos(at, "x", true);
    if (!inside(x)) continue;
    ctx.beginPath();
    ctx.moveTo(x - half, bbox.top - 9 * dpr);
    ctx.lineTo(x + half, bbox.top - 9 * dpr);
    ctx.lineTo(x, bbox.top - 2 * dpr);
    ctx.fill();
  }
  ctx.restore();
}

function readout(replay, policy, at) {
  if (at === null || at === undefined || !policy.tokens.length) return;
  const failed = policy.failure[at] !== undefined, over = policy.over.includes(at);
  const parts = [`Request ${at + 1}`];
  if (failed) parts.push("nothing could be sent");
  else {
    parts.push(`${short(policy.tokens[at])} tokens of ${short(replay.requests.tokens[at])}`);
    if (over) parts.push("over the window");
    else parts.push(`${percent(policy.cached[at] / Math.max(1, policy.tokens[at]))} cached`, money(policy.cost[at]));
    if (policy.broke.includes(at)) parts.push("prefix broken");
  }
  find("readout").textContent = parts.join("  ·  ");
  const plot = find("context");
  plot.setAttribute("aria-valuetext", parts.join(", "));
}

function legend(policy, replay, refused, near) {
  const item = (kind, text) => el("li", { class: kind, text });
  find("legend").replaceChildren(
    ...[...BANDS].reverse().map(([name, , kind]) => item(`block ${kind}`, name)),
    item("raw", "whole history"),
    item("cached", "from the cache"),
    ...(near ? [] : [item("bare", `budget ${short(replay.budget)} is far above`)]),
    ...(folds(policy, replay).length ? [item("fold", plural(folds(policy, replay).length, "fold"))] : []),
    ...(policy.broke.length ? [item("broke", `prefix broken ${policy.broke.length === 1 ? "once" : `${count(policy.broke.length)} times`}`)] : []),
    ...(refused ? [item("refused", `${count(refused)} refused`)] : []),
  );
}
