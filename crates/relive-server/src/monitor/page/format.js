// Numbers as people read them.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const FEW = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export const count = (value) => WHOLE.format(value);

// 1234567 as 1.23M.
export const short = (value) => (Math.abs(value) < 10_000 ? FEW.format(value) : SHORT.format(value));

export const rate = (value) => (value == null ? "–" : `${short(value)}/s`);

// Not rounded where digits are cheap.
export const number = (value) =>
  Math.abs(value) < 1e7 ? new Intl.NumberFormat("en", { maximumFractionDigits: 2 }).format(value) : short(value);

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${value} B` : `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${UNITS[unit]}`;
}

export function time(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

export const ago = (seconds) => (seconds < 2 ? "just now" : `${time(seconds)} ago`);

export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
