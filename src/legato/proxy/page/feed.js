// The line to the proxy: what there is, then every record as it is made; again and again when it breaks.

const KEY = "legato-token";
const SILENCE = 40_000; // the feed says something every 15 seconds
const PAUSES = [500, 1_000, 2_000, 4_000, 8_000]; // milliseconds before the next attempt
const POLL = 2_000;

export class Refused extends Error {
  constructor(status) {
    super(`the proxy answered ${status}`);
    this.status = status;
  }
}

/** Asks for something of the API. Throws `Refused`, and `TypeError` where nobody answers. */
export async function ask(path, options = {}) {
  const token = stored();
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  if (!answer.ok) throw new Refused(answer.status);
  return answer;
}

let shown = null;

/** Keeps a token for this tab, or where storage is forbidden for this page. */
export function show(token) {
  shown = token;
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // then it is asked for again after a reload
  }
}

function stored() {
  try {
    return shown ?? sessionStorage.getItem(KEY);
  } catch {
    return shown;
  }
}

export class Feed {
  /** `changed` is called after the store is, `state` with connecting, live, lost or token, and when it tries again. */
  constructor(store, { changed, state }) {
    this.store = store;
    this.changed = changed;
    this.state = state;
    this.live = false;
    this._polling = false;
    this._wake = () => {};
    setInterval(() => this._poll(), POLL);
    window.addEventListener("online", () => this.retry());
  }

  /** Does not wait any longer. */
  retry() {
    this._wake();
  }

  async run() {
    for (let failures = 0; ; failures++) {
      try {
        await this._follow(() => (failures = 0));
      } catch (problem) {
        this.live = false;
        if (problem instanceof Refused && problem.status === 401) {
          this.state("token");
          await this._pause(null);
          continue;
        }
      }
      this.live = false;
      const pause = PAUSES[Math.min(failures, PAUSES.length - 1)];
      this.state("lost", pause);
      await this._pause(pause);
    }
  }

  async _follow(started) {
    this.state("connecting");
    const stop = new AbortController();
    const feed = await ask("api/events", { signal: stop.signal }); // first, so that nothing falls between
    if (Object.keys(this.store.rules).length === 0) this.store.rules = await (await ask("api/rules")).json();
    await this._load();
    started();
    this.live = true;
    this.state("live");
    for await (const record of events(feed, stop)) {
      if (this.store.add(record.instance, [record])) this.changed();
    }
  }

  async _load() {
    const summary = await (await ask("api/summary")).json();
    const found = await (
      await ask(`api/requests?limit=1000&after=${this.store.last.get(summary.instance) ?? 0}`)
    ).json();
    this.store.note(summary);
    this.store.add(found.instance, found.requests);
    this.changed();
  }

  async _poll() {
    if (!this.live || document.hidden || this._polling) return;
    this._polling = true;
    try {
      this.store.note(await (await ask("api/summary")).json());
      this.changed();
    } catch {
      // the feed finds out by itself
    } finally {
      this._polling = false;
    }
  }

  _pause(milliseconds) {
    return new Promise((resolve) => {
      this._wake = resolve;
      if (milliseconds !== null) setTimeout(resolve, milliseconds);
    });
  }
}

/** The values of server-sent events, until the stream ends or is silent for too long. */
async function* events(answer, stop) {
  let waiting = setTimeout(() => stop.abort(), SILENCE);
  let rest = "";
  try {
    for await (const piece of pieces(answer.body.pipeThrough(new TextDecoderStream()))) {
      clearTimeout(waiting);
      waiting = setTimeout(() => stop.abort(), SILENCE);
      const blocks = (rest + piece).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const data = block.split("\n").filter((line) => line.startsWith("data: "));
        if (data.length) yield JSON.parse(data.map((line) => line.slice(6)).join("\n"));
      }
    }
  } finally {
    clearTimeout(waiting);
    stop.abort();
  }
}

async function* pieces(stream) {
  // Not every browser lets a stream be walked through with `for await`.
  const reader = stream.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
}
