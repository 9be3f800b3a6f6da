// The plan of the run whose tables these are: its operators, each behind those that it pulls from.

import { html } from "/charts.js";
import { bytes, count, rate, time } from "/format.js";

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

function show(section, plan, at) {
  const { operators } = plan;
  const lag = plan.version_lag == null ? "" : `, acts ${count(plan.version_lag)} versions behind`;
  const spent = parts(plan.time_by_part);
  const told = `${count(plan.env_steps)} steps, ${count(plan.learner_steps)} learner steps${lag}${spent && `; time: ${spent}`}`;
  const waiting = causes(operators);
  section.querySelector("h2").textContent = `${plan.agent} in ${plan.environment}`;
  section.querySelector("p").textContent = waiting.length ? `${told}; waits for ${waiting.join(", ")}` : told;
  section.querySelector("tbody").replaceChildren(...operators.map((operator, number) => row(operator, number, last ? at - last.at : 0)));
  last = { at, operators };
}

// Asks for the plan and shows it, if there is one.
export async function showPlan(section, at, isThere) {
  if (!isThere) {
    section.hidden = true;
    return;
  }
  try {
    const answer = await fetch("/plan");
    section.hidden = !answer.ok;
    if (answer.ok) show(section, await answer.json(), at);
  } catch {
    // The page says already that the server does not answer.
    section.hidden = true;
  }
}
