// The rate limiter as Figure 4 of the Reverb paper has it: a line between the bounds, and the cursor on it. Inserts push it to
// the right, samples pull it to the left; at an end one of them waits.

import { svg } from "/charts.js";
import { count, number, plural } from "/format.js";

const HEIGHT = 104;
const LINE = 46;
const SIDE = 26;

// Draws the limiter of `table`; `trail` are the cursors before.
export function limiter(place, table, trail) {
  const width = Math.max(place.clientWidth, 220);
  if (table.min_diff == null && table.max_diff == null) return place.replaceChildren(minimum(table, width));
  const [from, to] = range(table, trail);
  const x = (cursor) => SIDE + ((Math.min(Math.max(cursor, from), to) - from) / (to - from)) * (width - 2 * SIDE);
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img", class: "limiter" });
  root.append(svg("line", { class: "track", x1: x(from), x2: x(to), y1: LINE, y2: LINE }));
  zones(root, table, x);
  end(root, table.min_diff, x(from), -1, "samples");
  end(root, table.max_diff, x(to), 1, "inserts");
  trail.forEach((cursor, number) =>
    root.append(svg("circle", { class: "trail", cx: x(cursor), cy: LINE, r: 4, opacity: (0.3 * (number + 1)) / trail.length })));
  const at = x(table.cursor);
  const isOut = (table.min_diff != null && table.cursor < table.min_diff) || (table.max_diff != null && table.cursor > table.max_diff);
  root.append(svg("circle", { class: isOut ? "cursor out" : "cursor", cx: at, cy: LINE, r: 8 }));
  const label = Math.min(Math.max(at, 40), width - 40);
  root.append(svg("text", { class: "value", x: label, y: 22, "text-anchor": "middle" }, number(table.cursor)));
  pushes(root, table, width);
  root.append(svg("title", {}, `cursor ${number(table.cursor)} between ${words(table.min_diff)} and ${words(table.max_diff)}`));
  place.replaceChildren(root);
}

// A limiter without bounds: how many items there are beyond those that samples need. The cursor means nothing then.
function minimum(table, width) {
  const over = table.items - table.min_items;
  const told = over < 0 ? `${plural(-over, "item")} missing` : `${plural(over, "item")} over the minimum`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img", class: "limiter" });
  const most = Math.max(table.items, table.min_items, 1);
  const x = (items) => SIDE + (items / most) * (width - 2 * SIDE);
  root.append(svg("line", { class: "track", x1: x(0), x2: x(most), y1: LINE, y2: LINE }));
  root.append(svg("line", { class: "bound samples", x1: x(table.min_items), x2: x(table.min_items), y1: LINE - 14, y2: LINE + 14 }));
  root.append(svg("circle", { class: over < 0 ? "cursor out" : "cursor", cx: x(table.items), cy: LINE, r: 8 }));
  root.append(svg("text", { class: "value", x: width / 2, y: 22, "text-anchor": "middle" }, told));
  const anchor = x(table.min_items) < width / 2 ? "start" : "end";
  root.append(svg("text", { class: "tick", x: x(table.min_items), y: LINE + 30, "text-anchor": anchor }, `min ${count(table.min_items)}`));
  root.append(svg("title", {}, `${told} of ${count(table.min_items)}`));
  return root;
}

const words = (bound) => (bound == null ? "no bound" : number(bound));

// The cursors at both ends of the line: the bounds where there are some.
function range({ cursor, min_diff: min, max_diff: max, samples_per_insert: ratio }, trail) {
  if (min != null && max != null) return max > min ? [min, max] : [min - 1, max + 1];
  const reach = Math.max(...trail.map((before) => Math.abs(before - cursor)), 10 * ratio, 10) * 1.5;
  if (min != null) return [min, Math.max(cursor + reach, min + reach)];
  if (max != null) return [Math.min(cursor - reach, max - reach), max];
  return [cursor - reach, cursor + reach];
}

// Where one of the two has to wait.
function zones(root, table, x) {
  const zone = (kind, from, to) => {
    const [left, right] = [x(from), x(to)];
    if (right - left > 0) root.append(svg("rect", { class: `zone ${kind}`, x: left, y: LINE - 10, width: right - left, height: 20 }));
  };
  if (table.min_diff != null) zone("samples", table.min_diff, table.min_diff + 1);
  if (table.max_diff != null) zone("inserts", table.max_diff - table.samples_per_insert, table.max_diff);
}

// A bound, or an arrow where there is none.
function end(root, bound, x, side, kind) {
  const anchor = side < 0 ? "start" : "end";
  const edge = x + side * (SIDE - 4);
  if (bound == null) {
    root.append(svg("line", { class: "track", x1: x, x2: edge, y1: LINE, y2: LINE, "stroke-dasharray": "3 4" }));
    root.append(svg("text", { class: "tick", x: edge, y: LINE + 26, "text-anchor": anchor }, "no bound"));
    return;
  }
  root.append(svg("line", { class: `bound ${kind}`, x1: x, x2: x, y1: LINE - 14, y2: LINE + 14 }));
  root.append(svg("text", { class: "tick", x: edge, y: LINE + 30, "text-anchor": anchor }, `${side < 0 ? "min" : "max"} ${number(bound)}`));
}

// What an operation does to the cursor.
function pushes(root, table, width) {
  const y = HEIGHT - 6;
  const middle = width / 2;
  root.append(svg("text", { class: "push samples", x: middle - 12, y, "text-anchor": "end" }, "← sample −1"));
  root.append(svg("text", { class: "push inserts", x: middle + 12, y, "text-anchor": "start" }, `insert +${number(table.samples_per_insert)} →`));
}
