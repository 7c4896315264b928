// Elements, made without any HTML: what a request holds becomes text and nothing else.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `class`, `text` and `on…` handlers are special; null children are left out. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A name that a client chose: it cannot turn the text around it, however it is written. */
export function name(text, attributes = {}) {
  return el("bdi", { ...attributes, text });
}

/** The link to a rule's page. */
export function code(text, attributes = {}) {
  const family = text.startsWith("SIZE") ? "fits" : "mends";
  return el("a", { class: `code ${family}`, href: `#rule/${encodeURIComponent(text)}`, text, ...attributes });
}

export function find(id) {
  return document.getElementById(id);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") element.textContent = String(value);
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}
