// What the charts have in common, and the two of running sums. They are uPlot's, and share a cursor.

const SYNC = "requests";
const GRID = 1;

function axes(format, xs) {
  const common = {
    stroke: colour("soft"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: colour("line"), width: GRID },
    ticks: { show: false },
  };
  return [
    { ...common, grid: { show: false }, size: 26, gap: 6, space: 70, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000], values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) && tick >= 0 && tick < xs ? String(tick + 1) : "")) },
    { ...common, size: 52, gap: 6, space: 34, values: (_, ticks) => ticks.map(format) },
  ];
}

function canvas(id, options, data, changed) {
  const place = find(id);
  const size = () => ({ width: Math.max(200, place.clientWidth), height: Math.max(120, place.clientHeight) });
  const chart = new uPlot({
    ...size(),
    legend: { show: false },
    padding: [12, 14, 0, 0],
    ...options,
    cursor: { sync: { key: SYNC, setSeries: false }, points: { show: false }, y: false, drag: { x: true, y: false, dist: 8 }, ...options.cursor },
  }, data, place);
  const watcher = new ResizeObserver(() => {
    const now = size();
    if (now.width !== chart.width || now.height !== chart.height) chart.setSize(now);
  });
  watcher.observe(place);
  chart.over.addEventListener("click", () => {
    if (chart.cursor.idx !== null && chart.cursor.idx !== undefined) changed(chart.cursor.idx);
  });
  return { chart, destroy: () => { watcher.disconnect(); chart.destroy(); } };
}

function running(values, over) {
  let sum = 0, all = 0;
  return values.map((value, at) => {
    sum += value;
    if (!over) return sum;
    all += over[at];
    return all ? sum / all : null;
  });
}

// The chosen policy is drawn last and strongest. A line ends where nobody would have answered any more.
function curves(id, replay, state, sums, format, range, choose) {
  const number = replay.requests.turn.length;
  const values = find(`${id}-values`);
  const lines = replay.policies.map(sums);
  const order = replay.policies.map((_, at) => at).sort((a, b) => (a === state.policy) - (b === state.policy));
  const at = () => made.chart.cursor.idx ?? number - 1;
  const cells = replay.policies.map((policy, nth) => {
    const cell = el("b");
    const button = el("button", { type: "button", "aria-pressed": String(nth === state.policy), onclick: () => choose(nth) }, swatch(nth), foreign(policy.name), cell);
    return [el("li", {}, button), cell];
  });
  values.replaceChildren(...cells.map(([item]) => item));
  const show = () => cells.forEach(([, cell], nth) => {
    const value = lines[nth][at()];
    cell.textContent = value === null || value === undefined ? "–" : format(value);
  });
  const made = canvas(id, {
    scales: { x: { time: false, range: (_, low, high) => spread(low, high, number) }, y: { range } },
    axes: axes(format, number),
    series: [{}, ...order.map((nth) => ({
      stroke: colour(hue(nth), nth === state.policy ? 1 : 0.62),
      width: nth === state.policy ? 2.6 : 1.3,
      points: { show: number < 2, size: 6, fill: colour(hue(nth)) },
      spanGaps: true,
    }))],
    hooks: { setCursor: [() => show()], draw: [(chart) => mark(chart, state.request)] },
  }, [replay.requests.turn.map((_, nth) => nth), ...order.map((nth) => lines[nth])], (nth) => select({ request: nth }));
  show();
  return made;
}

const spread = (low, high, number) => number < 2 ? [-0.5, 0.5] : [low ?? 0, high ?? 1];

function mark(chart, at) {
  const { ctx, bbox } = chart;
  const x = chart.valToPos(at, "x", true);
  if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) return;
  ctx.save();
  ctx.strokeStyle = colour("ink");
  ctx.lineWidth = 1.2 * devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}
