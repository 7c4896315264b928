// Numbers as a person reads them.

const WHOLE = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export const NONE = "–";

export function whole(number) {
  return number === null || number === undefined ? NONE : WHOLE.format(Math.round(number));
}

/** 980, 9,812, 61.4k, 1.24M */
export function short(number) {
  if (number === null || number === undefined) return NONE;
  const size = Math.abs(number);
  if (size < 10_000) return whole(number);
  if (size < 999_500) return `${(number / 1_000).toFixed(size < 99_950 ? 1 : 0)}k`;
  return `${(number / 1_000_000).toFixed(size < 9_995_000 ? 2 : 1)}M`;
}

export function share(part, places = 0) {
  return part === null || part === undefined || Number.isNaN(part) ? NONE : `${(100 * part).toFixed(places)}%`;
}

/** A share that is whole only if it is: 0.999 is 99.9%. */
export function exact(part) {
  if (part === null || part === undefined || Number.isNaN(part)) return NONE;
  return part > 0.99 && part < 1 ? `${(Math.floor(part * 1_000) / 10).toFixed(1)}%` : share(part);
}

export function dollars(amount) {
  const size = Math.abs(amount);
  if (size > 0 && size < 0.00005) return "<$0.0001";
  const text =
    size >= 100 ? whole(size) : size >= 0.995 || size === 0 ? size.toFixed(2) : size.toFixed(size < 0.01 ? 4 : 3);
  return `${amount < 0 ? "−" : ""}$${text}`;
}

export function milliseconds(time) {
  if (time < 10) return `${time.toFixed(time < 1 ? 2 : 1)} ms`;
  if (time < 1_000) return `${Math.round(time)} ms`;
  return time < 60_000
    ? `${(time / 1_000).toFixed(1)} s`
    : `${Math.floor(time / 60_000)} min ${Math.round((time % 60_000) / 1_000)} s`;
}

export function clock(seconds) {
  return CLOCK.format(new Date(seconds * 1_000));
}

export function day(seconds) {
  return DAY.format(new Date(seconds * 1_000));
}

export function bytes(size) {
  if (size < 1_024) return `${size} B`;
  return size < 1_048_576 ? `${(size / 1_024).toFixed(1)} KiB` : `${(size / 1_048_576).toFixed(1)} MiB`;
}

export function many(count, one, more = `${one}s`) {
  return `${whole(count)} ${count === 1 ? one : more}`;
}

/** The value below which so large a share of them lies. */
export function quantile(values, part) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] : null;
}
