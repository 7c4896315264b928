// What the page knows: finished requests, and the newest summary of each worker that answered.

const MOST = 1_000; // records that are held; the oldest go
const FRESH = 10_000; // milliseconds after which a worker's summary no longer says what goes on now

const COUNTS = [
  "requests",
  "faults",
  "mended",
  "fitted",
  "tokens_in",
  "tokens_out",
  "kept",
  "repeated",
  "saved",
  "priced",
  "folds",
];

export class Store {
  constructor() {
    this.rules = {};
    this.last = new Map(); // by instance: the greatest id
    this.summary = null;
    this._records = new Map();
    this._summaries = new Map();
  }

  /** Takes records in; says how many of them are new. */
  add(instance, records) {
    const before = this._records.size;
    for (const record of records) {
      record.instance = instance;
      record.key = `${instance}-${record.id}`;
      if (this._records.has(record.key)) continue;
      this._records.set(record.key, record);
      this.last.set(instance, Math.max(record.id, this.last.get(instance) ?? 0));
    }
    const added = this._records.size - before;
    for (const key of this._records.keys()) {
      if (this._records.size <= MOST) break;
      this._records.delete(key);
    }
    return added;
  }

  note(summary) {
    this.summary = summary;
    this._summaries.set(summary.instance, { summary, at: performance.now() });
  }

  find(key) {
    return this._records.get(key) ?? null;
  }

  /** All of them, the oldest first. */
  get records() {
    return [...this._records.values()].sort(
      (a, b) => a.time + a.milliseconds / 1_000 - b.time - b.milliseconds / 1_000,
    );
  }

  /** Over all workers that answered, those that are gone too. */
  get totals() {
    const all = { outcomes: {}, changes: {} };
    for (const count of COUNTS) all[count] = 0;
    for (const { summary } of this._summaries.values()) {
      for (const count of COUNTS) all[count] += summary.totals[count];
      for (const [outcome, times] of Object.entries(summary.totals.outcomes)) {
        all.outcomes[outcome] = (all.outcomes[outcome] ?? 0) + times;
      }
      for (const [code, counts] of Object.entries(summary.totals.changes)) {
        const before = all.changes[code] ?? [0, 0, 0, 0];
        all.changes[code] = before.map((value, at) => value + counts[at]);
      }
    }
    return all;
  }

  get underWay() {
    const now = performance.now();
    const fresh = [...this._summaries.values()].filter(({ at }) => now - at < FRESH);
    return fresh.flatMap(({ summary }) => summary.under_way);
  }

  /** Each with its records: those of the newest minute first, and within a minute as they began, so that they stay. */
  get conversations() {
    const found = new Map();
    for (const record of this.records) {
      if (!record.conversation || record.tokens_out === null) continue;
      const key = JSON.stringify([record.upstream, record.conversation]);
      if (!found.has(key)) found.set(key, { key, name: record.conversation, records: [] });
      found.get(key).records.push(record);
    }
    const minute = ({ records }) => Math.floor(records.at(-1).time / 60);
    return [...found.values()].sort((a, b) => minute(b) - minute(a) || a.records[0].time - b.records[0].time);
  }
}
