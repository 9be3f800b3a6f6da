// The plan of the run whose tables these are: its operators, each behind those that it pulls from.

import { html } from "/charts.js";
import { ago, bytes, count, plural, rate, time } from "/format.js";

let last = null;

const cell = (text, properties = {}) => html("td", properties, text);

// What an operator has given since the last look, per second.
function speed(operator, number, seconds) {
  const before = last?.operators?.[number];
  if (!(seconds > 0) || before?.name !== operator.name || before.items > operator.items) return null;
  return (operator.items - before.items) / seconds;
}

function row(operator, number, seconds) {
  const place = operator.shards == null ? "" : ` in ${operator.shards} shard${operator.shards === 1 ? "" : "s"}`;
  const waits = operator.waits_s == null ? "" : time(operator.waits_s);
  return html("tr", { className: waits && operator.waits_s > 5 ? "late" : "" },
    cell(String(number)), cell(`${operator.name}${place}`), cell(operator.inputs.join(", ")), cell(count(operator.items)),
    cell(rate(speed(operator, number, seconds))), cell(operator.bytes == null ? "" : bytes(operator.bytes)),
    cell(operator.queued == null ? "" : count(operator.queued)), cell(operator.errors ? count(operator.errors) : ""), cell(waits));
}

// Who waits, and pulls from nobody who waits, too.
function causes(operators) {
  const waits = (number) => operators[number]?.waits_s != null;
  return operators.filter((one) => one.waits_s != null && !one.inputs.some(waits)).map((one) => `${one.name} for ${time(one.waits_s)}`);
}

// Where the time goes: the parts that took most first, without those below a percent.
function parts(seconds) {
  const all = Object.entries(seconds ?? {}).sort((one, other) => other[1] - one[1]);
  const sum = all.reduce((total, [, taken]) => total + taken, 0);
  return all.filter(([, taken]) => taken >= sum / 100).map(([part, taken]) => `${part} ${Math.round((100 * taken) / sum)} %`).join(", ");
}

// What is said about a run that does not go on.
const PHASES = { over: "; the run is over", left: "; its driver has failed, another one can resume the run" };

function show(section, plan, at) {
  const { operators } = plan;
  const lag = plan.version_lag == null ? "" : `, acts ${plural(plan.version_lag, "gradient step")} behind`;
  const ended = PHASES[plan.phase] ?? "";
  const spent = parts(plan.time_by_part);
  const told = `${count(plan.env_steps)} steps, ${count(plan.learner_steps)} learner steps${lag}${ended}${spent && `; time: ${spent}`}`;
  const waiting = causes(operators);
  section.querySelector("h2").textContent = `${plan.agent} in ${plan.environment}`;
  section.querySelector("p").textContent = waiting.length ? `${told}; waits for ${waiting.join(", ")}` : told;
  section.querySelector("tbody").replaceChildren(...operators.map((operator, number) => row(operator, number, last ? at - last.at : 0)));
  last = { at, operators };
}

// Who was not heard of for so many seconds is late.
const LATE = 10;
// Workers that are shown one by one.
const SHOWN = 100;

let lastSteps = null;

const orNone = (value, told = count) => (value == null ? "" : told(value));

// Steps since the last look, per second.
function stepsPerSecond(key, steps, seconds) {
  const before = lastSteps?.steps.get(key);
  return seconds > 0 && before != null && steps >= before ? (steps - before) / seconds : null;
}

function nodeRow(node, seconds) {
  return html("tr", { className: node.seen_seconds > LATE ? "late" : "" },
    cell(node.name), cell(node.host ?? ""), cell(node.state ?? ""), cell(orNone(node.workers)), cell(orNone(node.env_steps)),
    cell(rate(stepsPerSecond(`node ${node.name}`, node.env_steps, seconds))), cell(orNone(node.restarts)), cell(orNone(node.weights_version)),
    cell(orNone(node.seen_seconds, ago)));
}

function workerRow(worker, node, seconds) {
  return html("tr", { className: worker.seen_seconds > LATE ? "late" : "" },
    cell(String(worker.worker)), cell(node?.name ?? ""), cell(count(worker.env_steps)),
    cell(rate(stepsPerSecond(`worker ${worker.worker}`, worker.env_steps, seconds))), cell(count(worker.episodes)), cell(count(worker.restarts)),
    cell(orNone(worker.weights_version)), cell(orNone(worker.version_lag)), cell(orNone(worker.seen_seconds, ago)));
}

// Who acts for the run, and where, if the run knows.
function showWorkers(section, plan, at) {
  const { workers = [], nodes = [] } = plan;
  section.hidden = workers.length === 0;
  const seconds = lastSteps ? at - lastSteps.at : 0;
  const restarts = workers.reduce((sum, worker) => sum + worker.restarts, 0);
  const more = (plan.workers_in_all ?? workers.length) - Math.min(workers.length, SHOWN);
  section.querySelector("h2").textContent = plural(plan.workers_in_all ?? workers.length, "worker");
  section.querySelector("p").textContent =
    `learner: process ${plan.driver?.pid ?? ""} on ${plan.driver?.host ?? ""}; ${plural(restarts, "restart")}${more > 0 ? `; ${count(more)} workers are not shown` : ""}`;
  const [ofNodes, ofWorkers] = section.querySelectorAll("tbody");
  section.querySelector("#nodes").hidden = nodes.length === 0;
  ofNodes.replaceChildren(...nodes.map((node) => nodeRow(node, seconds)));
  const nodeOf = (worker) => nodes.find((node) => node.places?.includes(worker));
  ofWorkers.replaceChildren(...workers.slice(0, SHOWN).map((worker) => workerRow(worker, nodeOf(worker.worker), seconds)));
  const steps = new Map(workers.map((worker) => [`worker ${worker.worker}`, worker.env_steps]));
  for (const node of nodes) steps.set(`node ${node.name}`, node.env_steps);
  lastSteps = { at, steps };
}

// Asks for the plan and shows it, if there is one.
export async function showPlan(section, at, isThere) {
  const ofWorkers = document.getElementById("workers");
  if (!isThere) {
    section.hidden = true;
    ofWorkers.hidden = true;
    return;
  }
  try {
    const answer = await fetch("/plan");
    section.hidden = !answer.ok;
    ofWorkers.hidden = !answer.ok;
    if (!answer.ok) return;
    const plan = await answer.json();
    show(section, plan, at);
    showWorkers(ofWorkers, plan, at);
  } catch {
    // The page says already that the server does not answer.
    section.hidden = true;
    ofWorkers.hidden = true;
  }
}
