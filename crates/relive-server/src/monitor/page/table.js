// One table of the server.

import { histogram, html, lines } from "/charts.js";
import { bytes, count, number, plural, rate, short, time } from "/format.js";
import { limiter } from "/limiter.js";

// Seconds that are drawn, and over which a rate is taken.
const SHOWN = 600;
const WINDOW = 4;

// Cursors that leave a trail.
const TRAIL = 12;

// Seconds between two histograms.
const SURVEY = 5;

export class Table {
  constructor(name, isOpen) {
    this.name = name;
    this.past = { at: [], items: [], bytes: [], inserts: [], samples: [] };
    this.trail = [];
    this.surveyed = -Infinity;
    this.places = {};
    this.element = this.build(isOpen);
    this.element.addEventListener("toggle", () => this.now && this.draw());
    new ResizeObserver(() => this.now && this.draw()).observe(this.element);
  }

  build(isOpen) {
    const place = (field, className = "") => (this.places[field] = html("div", { className, data: { field } }));
    const part = (title, className, ...children) => html("div", { className: `part ${className}` }, html("h3", {}, ...[title].flat()), ...children);
    const key = (kind, text) => html("span", { className: `key ${kind}` }, text);
    return html("details", { className: "card table", open: isOpen, data: { table: this.name } },
      html("summary", {}, html("h2", {}, this.name), place("state", "pills"), place("size", "size"), place("flow", "flow")),
      place("rules", "muted rules"),
      html("div", { className: "parts" },
        part([key("inserts", "inserts"), key("samples", "samples"), " per second"], "half", place("rates")),
        part(["samples per insert ", place("ratio", "muted inline")], "half", place("ratios")),
        part("limiter", "half", place("limiter"), place("minimum")),
        part("priorities", "quarter", place("priorities")),
        part("ages", "quarter", place("ages")),
      ),
      place("waiters", "waiters"),
    );
  }

  // Takes over what the server remembers.
  remember(at, series) {
    this.past = { at: [...at], ...Object.fromEntries(Object.entries(series).map(([key, values]) => [key, [...values]])) };
  }

  // Takes note of what is now.
  update(at, facts) {
    const past = this.past;
    if (at > (past.at.at(-1) ?? -Infinity)) {
      past.at.push(at);
      for (const key of ["items", "bytes", "inserts", "samples"]) past[key].push(facts[key]);
      while (past.at[0] < at - SHOWN - 10) for (const values of Object.values(past)) values.shift();
    }
    if (this.now) this.trail = [...this.trail, this.now.cursor].slice(-TRAIL);
    this.now = facts;
    this.at = at;
    this.draw();
  }

  // Growth per second of a counter at each point; null over gaps and resets.
  rates(key) {
    const { at } = this.past;
    const values = this.past[key];
    let from = 0;
    return at.map((now, place) => {
      while (from < place && at[from] < now - WINDOW) from += 1;
      const [before, after] = [values[from], values[place]];
      if (from === place || before == null || after == null || after < before) return null;
      return (after - before) / (now - at[from]);
    });
  }

  draw() {
    const { now, places } = this;
    const [inserts, samples] = [this.rates("inserts"), this.rates("samples")];
    this.headline(now, inserts.at(-1), samples.at(-1));
    if (!this.element.open) return;
    const times = this.past.at;
    places.rules.textContent = rules(now);
    lines(places.rates, { times, format: short, lines: [{ values: inserts, kind: "inserts", label: "inserts" }, { values: samples, kind: "samples", label: "samples" }] });
    this.ratios(now, times);
    limiter(places.limiter, now, this.trail);
    places.minimum.replaceChildren(...minimum(now));
    places.waiters.replaceChildren(...waiters(now));
    this.survey();
  }

  headline(now, inserts, samples) {
    const { places } = this;
    const fill = Math.min(now.items / now.max_items, 1);
    const bar = html("span", { className: "meter" }, html("span", {}));
    bar.firstChild.style.width = `${fill * 100}%`;
    const bound = now.max_bytes == null ? bytes(now.bytes) : `${bytes(now.bytes)} of ${bytes(now.max_bytes)}`;
    places.size.replaceChildren(bar, html("span", { data: { field: "items", value: now.items } }, `${count(now.items)} of ${short(now.max_items)}`), html("span", { className: "muted", data: { field: "bytes", value: now.bytes } }, bound));
    places.flow.replaceChildren(
      html("span", { className: "inserts", data: { field: "inserts", value: now.inserts } }, `${rate(inserts)} in`),
      html("span", { className: "samples", data: { field: "samples", value: now.samples } }, `${rate(samples)} out`),
    );
    places.state.replaceChildren(...pills(now));
  }

  ratios(now, times) {
    const inserts = this.rates("inserts");
    const values = this.rates("samples").map((samples, place) => (samples == null || !(inserts[place] > 0) ? null : samples / inserts[place]));
    const all = now.inserts > 0 ? `${number(now.samples / now.inserts)} since the start` : "no inserts yet";
    const isBound = now.min_diff != null || now.max_diff != null;
    this.places.ratio.textContent = isBound ? `${all}, target ${number(now.samples_per_insert)}` : all;
    lines(this.places.ratios, { times, format: short, target: isBound ? now.samples_per_insert : undefined, lines: [{ values, kind: "ratio", label: "samples per insert" }] });
  }

  // Asks for the histograms now and then.
  async survey() {
    if (this.at - this.surveyed < SURVEY && this.found) return this.bars();
    if (this.at - this.surveyed < SURVEY) return;
    this.surveyed = this.at;
    try {
      const answer = await fetch(`/histograms?table=${encodeURIComponent(this.name)}`);
      if (answer.ok) {
        this.found = await answer.json();
        this.bars();
      }
    } catch {
      // The stream of events says that the server is away.
    }
  }

  bars() {
    histogram(this.places.priorities, this.found.priority, short);
    histogram(this.places.ages, this.found.age_seconds, time);
  }
}

function rules(now) {
  const times = now.max_times_sampled > 0 ? `, at most ${plural(now.max_times_sampled, "time")}` : "";
  const disk = now.spilled_bytes > 0 ? ` · ${bytes(now.spilled_bytes)} on disk` : "";
  return `sampled by ${now.sampler}${times} · removed by ${now.remover} · ${plural(now.episodes, "episode")} · ${bytes(now.raw_bytes)} decoded${disk}`;
}

function pills(now) {
  const pill = (kind, text) => html("span", { className: `pill ${kind}` }, text);
  const found = [];
  if (now.inserts_paused && now.samples_paused) found.push(pill("warn", "paused"));
  else if (now.inserts_paused) found.push(pill("warn", "inserts paused"));
  else if (now.samples_paused) found.push(pill("warn", "samples paused"));
  if (now.waiting_inserts > 0) found.push(pill("inserts", `${plural(now.waiting_inserts, "insert")} waiting`));
  if (now.waiting_samples > 0) found.push(pill("samples", `${plural(now.waiting_samples, "sample call")} waiting`));
  return found;
}

// How much is missing until sampling can start.
function minimum(now) {
  if (now.items >= now.min_items) return [html("p", { className: "muted" }, `sampling needs ${plural(now.min_items, "item")}`)];
  const bar = html("span", { className: "meter wide" }, html("span", {}));
  bar.firstChild.style.width = `${(now.items / now.min_items) * 100}%`;
  return [html("p", {}, bar, ` ${count(now.items)} of ${plural(now.min_items, "item")} before sampling can start`)];
}

function waiters(now) {
  if (now.waiters.length === 0) return [html("p", { className: "muted" }, "no calls are waiting")];
  const groups = new Map();
  for (const waiter of now.waiters) {
    const key = `${waiter.operation} ${waiter.who} ${waiter.reason}`;
    const known = groups.get(key);
    if (known) known.wanted += waiter.wanted;
    else groups.set(key, { ...waiter });
  }
  const rows = [...groups.values()].map((waiter) =>
    html("li", {}, html("span", { className: `key ${waiter.operation}s` }, `${waiter.operation} of ${count(waiter.wanted)}`), html("b", {}, time(waiter.waiting_s)), html("span", {}, waiter.reason), html("span", { className: "muted" }, waiter.who)));
  const more = now.waiting_inserts + now.waiting_samples - now.waiters.length;
  if (more > 0) rows.push(html("li", { className: "muted" }, `and ${count(more)} more`));
  return [html("h3", {}, "waiting"), html("ul", {}, ...rows)];
}
