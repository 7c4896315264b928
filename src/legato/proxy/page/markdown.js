// The Markdown that the rules' pages are written in: headings, paragraphs, lists, tables, fences, and what is in a line.

import { el } from "./dom.js";

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\(([A-Z]+\d+)\.md\)/g;

function inline(text) {
  const found = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    found.push(text.slice(at, match.index));
    if (match[1]) found.push(el("code", { text: match[1] }));
    else if (match[2]) found.push(el("strong", { text: match[2] }));
    else found.push(el("a", { class: "code", href: `#rule/${match[4]}`, text: match[3] }));
    at = match.index + match[0].length;
  }
  return [...found, text.slice(at)].filter((each) => each !== "");
}

function cells(line) {
  return line
    .trim()
    .replace(/^\||\|$/g, "")
    .split("|")
    .map((each) => each.trim());
}

function table(lines) {
  const [head, , ...rows] = lines.map(cells);
  const row = (tag, texts) =>
    el(
      "tr",
      {},
      texts.map((text) => el(tag, {}, inline(text))),
    );
  return el(
    "div",
    { class: "scroll" },
    el(
      "table",
      {},
      el("thead", {}, row("th", head)),
      el(
        "tbody",
        {},
        rows.map((each) => row("td", each)),
      ),
    ),
  );
}

function list(lines) {
  const items = [];
  for (const line of lines) {
    if (line.startsWith("- ")) items.push(line.slice(2));
    else items[items.length - 1] += ` ${line.trim()}`;
  }
  return el(
    "ul",
    {},
    items.map((item) => el("li", {}, inline(item))),
  );
}

function fence(lines) {
  const [kind, ...rest] = lines[0]
    .slice(3)
    .split(" ")
    .filter((word) => word !== "json");
  const title = kind ? el("figcaption", { text: [kind, ...rest].join(" ") }) : null;
  return el(
    "figure",
    { class: kind === "after" ? "after" : "before" },
    title,
    el("pre", { tabindex: 0, text: lines.slice(1).join("\n") }),
  );
}

/** The elements of a text. */
export function draw(text) {
  const lines = text.split("\n");
  const found = [];
  const take = (holds) => {
    const taken = [];
    while (lines.length && holds(lines[0])) taken.push(lines.shift());
    return taken;
  };
  while (lines.length) {
    const heading = /^(#{1,4}) (.*)$/.exec(lines[0]);
    if (lines[0].trim() === "") lines.shift();
    else if (heading) {
      found.push(el(`h${heading[1].length}`, {}, inline(heading[2])));
      lines.shift();
    } else if (lines[0].startsWith("```")) {
      const first = lines.shift();
      found.push(fence([first, ...take((line) => !line.startsWith("```"))]));
      lines.shift();
    } else if (lines[0].startsWith("|")) found.push(table(take((line) => line.startsWith("|"))));
    else if (lines[0].startsWith("- "))
      found.push(list(take((line) => line.startsWith("- ") || line.startsWith("  "))));
    else {
      const words = [lines.shift(), ...take((line) => line.trim() !== "" && !/^(#|```|\||- )/.test(line))];
      found.push(el("p", {}, inline(words.join(" "))));
    }
  }
  return found;
}
