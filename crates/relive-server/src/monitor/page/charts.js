// Lines over time and histograms, in SVG.

const SPACE = "http://www.w3.org/2000/svg";

// An SVG element with attributes and children.
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// An HTML element with properties and children.
export function html(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "data") Object.assign(element.dataset, value);
    else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

// The least of 1, 2, 2.5 and 5 times a power of ten that is not below.
function nice(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

// Seconds that are drawn: as many as are known, up to ten minutes.
const WINDOWS = [60, 120, 300, 600];

const span = (seconds) => (seconds < 120 ? `${seconds} s` : `${seconds / 60} min`);

const HEIGHT = 112;
const TOP = 8;
const FOOT = 18;
const SIDE = 44;

// Draws `lines` ({ values, kind, label }) over `times` into `place`. Values may be null, where a line breaks.
export function lines(place, { times, lines, format, target }) {
  const width = Math.max(place.clientWidth, 160);
  const now = times.at(-1) ?? 0;
  const seconds = WINDOWS.find((window) => now - (times[0] ?? now) <= window) ?? WINDOWS.at(-1);
  const known = lines.flatMap((line) => line.values).filter((value) => value != null);
  const top = nice(Math.max(...known, target ?? 0, 0));
  const x = (at) => SIDE + ((at - now + seconds) / seconds) * (width - SIDE - 6);
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - FOOT);
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img" });
  for (const part of [0, 0.5, 1]) {
    root.append(svg("line", { class: "grid", x1: SIDE, x2: width - 6, y1: y(top * part), y2: y(top * part) }));
    root.append(svg("text", { class: "tick", x: SIDE - 6, y: y(top * part) + 4, "text-anchor": "end" }, format(top * part)));
  }
  for (const [at, text, anchor] of [[-seconds, `${span(seconds)} ago`, "start"], [-seconds / 2, span(seconds / 2), "middle"], [0, "now", "end"]])
    root.append(svg("text", { class: "tick", x: x(now + at), y: HEIGHT - 4, "text-anchor": anchor }, text));
  if (target != null && target <= top)
    root.append(svg("line", { class: "target", x1: SIDE, x2: width - 6, y1: y(target), y2: y(target) }));
  for (const line of lines) root.append(svg("path", { class: `line ${line.kind}`, d: path(times, line.values, x, y, now - seconds) }));
  root.append(svg("title", {}, lines.map((line) => `${line.label}: ${line.values.at(-1) == null ? "unknown" : format(line.values.at(-1))}`).join(", ")));
  place.replaceChildren(root);
}

function path(times, values, x, y, since) {
  let text = "";
  let isDown = false;
  for (let place = 0; place < times.length; place += 1) {
    if (values[place] == null || times[place] < since) {
      isDown = false;
      continue;
    }
    text += `${isDown ? "L" : "M"}${x(times[place]).toFixed(1)} ${y(Math.max(values[place], 0)).toFixed(1)}`;
    isDown = true;
  }
  return text;
}

// Below this width three numbers would overlap.
const ROOM_FOR_MEDIAN = 240;

// Draws the bars of a histogram ({ low, high, median, is_log, counts }) into `place`.
export function histogram(place, found, format) {
  if (!found) {
    place.replaceChildren(html("p", { className: "muted empty" }, "no items"));
    return;
  }
  const width = Math.max(place.clientWidth, 120);
  const most = Math.max(...found.counts, 1);
  const step = width / found.counts.length;
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img" });
  found.counts.forEach((bar, number) => {
    if (bar === 0) return;
    const height = Math.max((bar / most) * (HEIGHT - TOP - FOOT), 2);
    root.append(svg("rect", { class: "bar", x: number * step + 0.75, y: HEIGHT - FOOT - height, width: Math.max(step - 1.5, 1), height, rx: 1.5 }));
  });
  root.append(svg("line", { class: "grid", x1: 0, x2: width, y1: HEIGHT - FOOT, y2: HEIGHT - FOOT }));
  const text = (x, anchor, words) => root.append(svg("text", { class: "tick", x, y: HEIGHT - 4, "text-anchor": anchor }, words));
  if (found.low === found.high) text(width / 2, "middle", `all ${format(found.low)}`);
  else {
    text(0, "start", format(found.low));
    if (width >= ROOM_FOR_MEDIAN) text(width / 2, "middle", `median ${format(found.median)}`);
    text(width, "end", format(found.high));
  }
  root.append(svg("title", {}, `from ${format(found.low)} to ${format(found.high)}, median ${format(found.median)}${found.is_log ? ", by the logarithm" : ""}`));
  place.replaceChildren(root);
}
