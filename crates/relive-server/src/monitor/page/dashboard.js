// The page: what the server tells every second, and its tables.

import { html } from "/charts.js";
import { ago, bytes, count, plural, rate, short, time } from "/format.js";
import { showPlan } from "/plan.js";
import { Table } from "/table.js";

// Tables that are unfolded at first.
const OPEN = 4;

const tables = new Map();
const find = (id) => document.getElementById(id);
let past = null;
let last = null;

const source = new EventSource("/events");
source.addEventListener("past", (event) => {
  past = JSON.parse(event.data);
  for (const table of tables.values()) if (past.tables[table.name]) table.remember(past.at, past.tables[table.name]);
});
source.addEventListener("facts", (event) => show(JSON.parse(event.data)));
source.addEventListener("error", () => phase("lost", "the server does not answer; retrying"));

function phase(kind, text) {
  const pill = find("phase");
  pill.className = `pill ${kind}`;
  pill.textContent = kind;
  pill.title = text ?? "";
  document.body.classList.toggle("stale", kind === "lost");
}

function show(facts) {
  phase(facts.phase);
  const { server } = facts;
  find("about").textContent = server ? `${facts.version} at ${location.host}, up ${time(server.uptime_s)}` : `${facts.version} at ${location.host}, loading`;
  if (!server) return;
  showTables(facts.at, server);
  showServer(facts, server);
  showTrouble(server);
  showChanges(facts.at, server.changes);
  showPlan(find("plan"), facts.at, server.tables.some((table) => table.name === "plan"));
  last = facts;
  document.body.dataset.ready = "yes";
}

function showTables(at, server) {
  const names = new Set(server.tables.map((table) => table.name));
  for (const [name, table] of tables) {
    if (names.has(name)) continue;
    table.element.remove();
    tables.delete(name);
  }
  for (const now of server.tables) {
    let table = tables.get(now.name);
    if (!table) {
      table = new Table(now.name, tables.size < OPEN);
      if (past?.tables[now.name]) table.remember(past.at, past.tables[now.name]);
      tables.set(now.name, table);
      find("tables").append(table.element);
    }
    table.update(at, now);
  }
  find("more").hidden = server.tables_not_shown === 0;
  find("more").textContent = `${plural(server.tables_not_shown, "further table")}, which /metrics has`;
}

function tile(field, title, value, detail, fill) {
  const parts = [html("h3", {}, title), html("p", { className: "figure" }, value), html("p", { className: "muted" }, detail)];
  if (fill != null) {
    const meter = html("span", { className: fill > 0.9 ? "meter wide full" : "meter wide" }, html("span", {}));
    meter.firstChild.style.width = `${Math.min(fill, 1) * 100}%`;
    parts.push(meter);
  }
  return html("div", { className: "card tile", data: { field } }, ...parts);
}

// Growth of the sum over all tables since the last facts.
function total(facts, key) {
  if (!last?.server || facts.at <= last.at) return null;
  const sum = ({ server }) => server.tables.reduce((all, table) => all + table[key], 0);
  const grown = sum(facts) - sum(last);
  return grown < 0 ? null : grown / (facts.at - last.at);
}

function showServer(facts, server) {
  const { memory, checkpoints } = server;
  const cpu = last && facts.cpu_seconds != null && facts.at > last.at ? ((facts.cpu_seconds - last.cpu_seconds) / (facts.at - last.at)) * 100 : null;
  const bound = memory.max_bytes == null ? "no bound" : `of ${bytes(memory.max_bytes)}`;
  const disk = memory.spilled_bytes > 0 ? `, ${bytes(memory.spilled_bytes)} on disk` : "";
  const streams = `${plural(server.insert_streams, "insert stream")}, ${plural(server.sample_streams, "sample stream")}`;
  find("server").replaceChildren(
    tile("inserts", "inserts", rate(total(facts, "inserts")), `${count(server.tables.reduce((all, table) => all + table.inserts, 0))} in all`),
    tile("samples", "samples", rate(total(facts, "samples")), `${count(server.tables.reduce((all, table) => all + table.samples, 0))} in all`),
    tile("memory", "chunks in memory", bytes(memory.resident_bytes), `${bound}${disk}; ${plural(memory.chunks, "chunk")}`, memory.max_bytes == null ? null : memory.resident_bytes / memory.max_bytes),
    tile("process", "process", facts.rss_bytes == null ? "–" : bytes(facts.rss_bytes), cpu == null ? "resident" : `resident; ${Math.round(cpu)} % of a core`),
    tile("connections", "connections", count(server.connections), streams),
    checkpointTile(facts.at, checkpoints),
  );
}

function checkpointTile(at, checkpoints) {
  const { running, last_saved: saved } = checkpoints;
  if (running) {
    const isKnown = running.bytes_total > 0;
    const detail = isKnown ? `${bytes(running.bytes_done)} of ${bytes(running.bytes_total)}` : plural(running.items_done, "item");
    return tile("checkpoints", "checkpoint", running.phase, `${detail}, ${time(running.elapsed_s)}`, isKnown ? running.bytes_done / running.bytes_total : 0);
  }
  const due = checkpoints.next_due_s == null ? "" : `; next in ${time(checkpoints.next_due_s)}`;
  if (saved) return tile("checkpoints", "checkpoint", ago(at - saved.began_at), `${bytes(saved.total_bytes)} in ${time(saved.took_s)}${due}`);
  return tile("checkpoints", "checkpoint", checkpoints.enabled ? "none yet" : "off", checkpoints.enabled ? `in memory only until then${due}` : "not configured");
}

// What an operator should know at once.
function showTrouble({ memory, checkpoints }) {
  const found = [];
  if (checkpoints.error) found.push(`The last checkpoint failed: ${checkpoints.error}. Earlier ones remain valid.`);
  if (memory.spill_error) found.push(`Chunks cannot be moved to disk: ${memory.spill_error}.`);
  if (memory.waiting > 0) found.push(`${plural(memory.waiting, "writer")} waiting for memory, the first for ${time(memory.longest_wait_s)}: ${memory.reason}.`);
  find("trouble").hidden = found.length === 0;
  find("trouble").replaceChildren(...found.flatMap((text) => [text, html("br")]).slice(0, -1));
}

function showChanges(at, changes) {
  find("changes").hidden = changes.length === 0;
  const cell = (text, title = "") => html("td", { title }, text);
  const row = (it) => html("tr", {}, cell(ago(at - it.at), new Date(it.at * 1000).toISOString()), cell(it.table), cell(it.what), cell(it.old), cell(it.new), cell(it.who));
  find("changes").querySelector("tbody").replaceChildren(...changes.slice(0, 30).map(row));
}
