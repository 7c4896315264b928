// Elements and numbers. Whatever a transcript says goes through `textContent`, never through a parser.

const find = (id) => document.getElementById(id);
const parsed = (id) => JSON.parse(find(id)?.textContent ?? "null");

function el(tag, fields = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// What others wrote, so that it cannot turn the line around it: control and direction marks are shown as a box.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const visible = (text) => String(text).replace(HIDDEN, "\u25af");
const foreign = (text, fields = {}) => el("bdi", { ...fields, text: visible(text) });

const count = (number) => Math.round(number).toLocaleString("en-US");
const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}%`;
const money = (dollars) => {
  if (!dollars) return "$0";
  if (dollars >= 100) return `$${count(dollars)}`;
  return `$${dollars.toFixed(dollars >= 1 ? 2 : dollars >= 0.01 ? 3 : 4)}`;
};

function short(number) {
  const size = Math.abs(number);
  if (size < 1000) return String(Math.round(number));
  const [by, unit] = size < 999_500 ? [1e3, "k"] : [1e6, "M"];
  const value = number / by;
  return `${Number(value.toFixed(Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0))}${unit}`;
}

// A colour of the style sheet as it is now: light or dark.
function colour(name, alpha = 1) {
  const probe = el("i");
  probe.style.color = `var(--${name})`;
  probe.style.opacity = 0;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  const parts = value.match(/[\d.]+/g);
  return `rgba(${parts[0]}, ${parts[1]}, ${parts[2]}, ${alpha})`;
}

const HUES = 12;
const hue = (number) => `hue-${number % HUES}`;
const swatch = (number) => el("i", { class: `swatch ${hue(number)}`, "aria-hidden": "true" });
const mean = (code) => OVERVIEW.codes[code] ?? [code, "", false];

function bar(share, kind) {
  const fill = el("i", { class: kind });
  fill.style.inlineSize = `${100 * Math.min(1, Math.max(0, share))}%`;
  return el("span", { class: "track", "aria-hidden": "true" }, fill);
}
