// A rule's page, as the proxy serves it.

import { el, find } from "./dom.js";
import { draw } from "./markdown.js";

const CODE = /^[A-Z]+\d+$/;

export async function open(code) {
  const dialog = find("rule");
  const close = el("button", {
    type: "button",
    class: "close",
    "aria-label": "Close",
    text: "✕",
    onclick: () => dialog.close(),
  });
  const body = el("article", { class: "markdown" }, el("p", { class: "note", text: "Opening…" }));
  dialog.replaceChildren(close, body);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  try {
    const answer = CODE.test(code) ? await fetch(`rules/${code}.md`) : null;
    body.replaceChildren(...(answer?.ok ? draw(await answer.text()) : [el("h1", { text: "There is no such rule" })]));
  } catch {
    body.replaceChildren(el("p", { class: "wrong", role: "alert", text: "The proxy does not answer." }));
  }
}
