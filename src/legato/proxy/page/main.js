// The page: the feed fills the store, and what is drawn follows it.

import * as changes from "./changes.js";
import * as conversations from "./conversations.js";
import * as detail from "./detail.js";
import { el, find, name } from "./dom.js";
import { Feed, show } from "./feed.js";
import * as requests from "./requests.js";
import * as rule from "./rule.js";
import { Store } from "./store.js";
import * as tiles from "./tiles.js";

const STATES = {
  connecting: "Connecting",
  live: "Live",
  lost: "Disconnected, trying again",
  token: "A token is wanted",
};
const OFTEN = 150; // milliseconds between two drawings

const store = new Store();
const { filter } = requests;
let due = 0;
let asked = false;
let opened = false;

function draw(again = false) {
  tiles.draw(store);
  conversations.draw(store, filter.only, choose);
  changes.draw(store);
  requests.draw(store, again);
  drawSummary(store.summary);
}

/** Draws soon: of many changes at once only the last is seen. */
function changed() {
  if (due) return;
  due = setTimeout(() => {
    due = 0;
    draw();
  }, OFTEN);
}

function drawSummary(summary) {
  if (!summary) return;
  const listed = summary.upstreams.map((each) =>
    el(
      "li",
      { title: each.url },
      name(each.name),
      each.profile && each.profile !== each.name ? el("small", {}, name(each.profile)) : null,
    ),
  );
  if (find("upstreams").childElementCount !== listed.length) find("upstreams").replaceChildren(...listed);
  if (summary.workers > 1)
    notice(
      `One of ${summary.workers} workers is seen at a time; /metrics has their sum where PROMETHEUS_MULTIPROC_DIR is set.`,
    );
  if (!summary.records) notice("The operator keeps no records (records = 0): only what comes from now on is seen.");
}

function notice(text) {
  find("notice").textContent = text;
  find("notice").hidden = false;
}

function state(now) {
  const at = find("state");
  at.dataset.state = now;
  at.lastElementChild.textContent = STATES[now];
  document.body.classList.toggle("stale", now !== "live");
  if (now === "live" && !opened) {
    opened = true;
    follow(); // an address may name a request or a rule, once it is known what there is
  }
  if (now === "token" && !find("token").open) {
    find("token-wrong").hidden = !asked;
    asked = true;
    find("token").showModal();
  }
}

/** Only one conversation's requests, or all again. */
function choose(key, title = "") {
  filter.only = key;
  const button = find("only");
  button.hidden = key === null;
  button.replaceChildren("Only ", name(title), " ✕");
  button.setAttribute("aria-label", `Only ${title}: show all again`);
  draw(true);
}

function follow() {
  const [kind, value = ""] = location.hash.slice(1).split("/");
  if (kind === "request") detail.open(store, value);
  if (kind === "rule") rule.open(value);
  if (kind !== "rule" && find("rule").open) find("rule").close();
  if (kind !== "rule" && kind !== "request" && find("detail").open) find("detail").close();
}

/** What a closed dialog leaves behind is the address of what is still open. */
function closed() {
  const before = history.state?.before;
  const hash = find("detail").open && before ? before : location.pathname;
  history.replaceState(null, "", hash);
}

function isOutside(event, dialog) {
  if (event.target !== dialog || !event.detail) return false; // a key that presses a button has no place
  const box = dialog.getBoundingClientRect();
  return event.clientX < box.left || event.clientX > box.right || event.clientY < box.top || event.clientY > box.bottom;
}

function listen() {
  find("only").addEventListener("click", () => choose(null));
  find("search").addEventListener("input", (event) => {
    filter.words = event.target.value.trim().toLowerCase();
    requests.draw(store, true);
  });
  for (const button of document.querySelectorAll("[data-which]")) {
    button.addEventListener("click", () => {
      filter.which = button.dataset.which;
      for (const each of document.querySelectorAll("[data-which]"))
        each.setAttribute("aria-pressed", String(each === button));
      requests.draw(store, true);
    });
  }
  window.addEventListener("hashchange", (event) => {
    const from = new URL(event.oldURL).hash;
    if (location.hash.startsWith("#rule/"))
      history.replaceState({ before: from.startsWith("#request/") ? from : history.state?.before }, "");
    follow();
  });
  for (const dialog of [find("detail"), find("rule")]) {
    dialog.addEventListener("close", closed);
    dialog.addEventListener("click", (event) => isOutside(event, dialog) && dialog.close());
  }
  document.addEventListener("keydown", (event) => {
    requests.walk(event);
    if (event.key === "/" && !event.target.closest("input, dialog")) {
      event.preventDefault();
      find("search").focus();
    }
  });
  find("token").addEventListener("close", () => {
    show(find("token-value").value);
    find("token-value").value = "";
    feed.retry();
  });
  document.addEventListener("visibilitychange", () => document.hidden || changed());
}

const feed = new Feed(store, { changed, state });
listen();
draw();
feed.run();
