// What is looked at (a session, a policy, a request), and drawing it anew when that changes.

const OVERVIEW = parsed("overview");
const FAVOURITE = "cache-friendly";
const state = { session: 0, policy: 0, request: 0 };
let replay = null;
let charts = [];
let waiting = null;

function select(change) {
  const policy = change.policy !== undefined && change.policy !== state.policy;
  Object.assign(state, change);
  state.request = Math.max(0, Math.min(state.request, replay.requests.turn.length - 1));
  if (policy) draw();
  else {
    for (const { chart } of charts) chart.redraw(false, false);
    if (!replay.requests.turn.length) return;
    readout(replay, replay.policies[state.policy], state.request);
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(showRequest); // a held key asks for more than can be seen
  }
}

function step(way, jump = false) {
  if (!jump) return select({ request: state.request + way });
  const policy = replay.policies[state.policy];
  const events = [...new Set([...policy.broke, ...folds(policy, replay), ...refusedRows(policy)])].sort((a, b) => a - b);
  const next = way > 0 ? events.find((at) => at > state.request) : events.findLast((at) => at < state.request);
  if (next !== undefined) select({ request: next });
}

function showRequest() {
  const plot = find("context"), number = replay.requests.turn.length;
  plot.setAttribute("aria-valuemin", "1");
  plot.setAttribute("aria-valuemax", String(number));
  plot.setAttribute("aria-valuenow", String(Math.min(number, state.request + 1)));
  find("request-title").replaceChildren(number ? `Request ${count(state.request + 1)} of ${count(number)} under ` : "Requests", ...(number ? [foreign(replay.policies[state.policy].name)] : []));
  find("detail").replaceChildren(...detail(replay, state, (policy) => select({ policy })));
  find("before").disabled = state.request === 0;
  find("after").disabled = state.request >= number - 1;
}

function draw() {
  const choose = (policy) => select({ policy });
  for (const each of charts) each.destroy();
  charts = [];
  find("policies").querySelector(".scroll").replaceChildren(policiesTable(replay.policies, state.policy, choose));
  find("ages").querySelector(".scroll").replaceChildren(agesTable(replay.policies));
  find("timeline-title").replaceChildren("The context under ", foreign(replay.policies[state.policy].name));
  if (replay.requests.turn.length) {
    const used = replay.requests.used;
    charts = [
      timeline(replay, state),
      curves("money", replay, state, (policy) => running(policy.cost), money, (_, low, high) => [0, 1.06 * high || 1], choose),
      curves("evidence", replay, state, (policy) => running(policy.kept, used), (share) => percent(share), (_, low) => [Math.max(0, Math.floor(10 * Math.min(low ?? 0, 0.9)) / 10), 1.01], choose),
    ];
  }
  showRequest();
}

function open(session) {
  replay = parsed(`replay-${session}`);
  Object.assign(state, { session, request: 0 });
  state.policy = Math.max(0, replay.policies.findIndex(({ name }) => name === FAVOURITE));
  const first = replay.policies[state.policy];
  if (first) state.request = first.broke[0] ?? 0;
  document.title = visible(`${replay.where} · legato replay`);
  find("title").replaceChildren(foreign(replay.where));
  find("facts").replaceChildren(...facts(replay));
  find("notes").replaceChildren(...replay.notes.map((note) => el("li", {}, foreign(note))));
  const best = optimum(replay.optimum);
  find("optimum").hidden = !best;
  find("optimum").textContent = best ?? "";
  find("policies").querySelector(".note").hidden = replay.policies.length < 2;
  if (replay.policies.length) draw();
}

function keys(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const here = event.target === find("context");
  const moves = { ArrowLeft: () => step(-1), ArrowRight: () => step(1) };
  const inside = { ArrowUp: () => step(-1, true), ArrowDown: () => step(1, true), Home: () => select({ request: 0 }), End: () => select({ request: Infinity }), PageUp: () => step(-20), PageDown: () => step(20) };
  const move = moves[event.key] ?? (here ? inside[event.key] : undefined);
  if (!move) return;
  event.preventDefault();
  move();
}

function start() {
  const { sessions, policies } = OVERVIEW;
  if (!sessions.length) {
    find("nothing").hidden = false;
    return;
  }
  find("played").hidden = false;
  if (sessions.length > 1) {
    const picker = find("session");
    picker.append(...sessions.map(([where, model, requests], nth) => el("option", { value: nth, text: visible(`${where} (${[model, plural(requests, "request")].filter(Boolean).join(", ")})`) })));
    picker.addEventListener("change", () => open(Number(picker.value)));
    document.querySelector(".picker").hidden = false;
    find("all").hidden = false;
    find("all-title").textContent = `All ${count(sessions.length)} sessions, ${plural(sessions.reduce((sum, [, , each]) => sum + each, 0), "request")}`;
    find("all").querySelector(".scroll").append(policiesTable(policies, null, null));
  }
  find("before").addEventListener("click", () => step(-1));
  find("after").addEventListener("click", () => step(1));
  find("event").addEventListener("click", () => step(1, true));
  addEventListener("keydown", keys);
  open(0);
  watchTheme(draw);
}

start();
