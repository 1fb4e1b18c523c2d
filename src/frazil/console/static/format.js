// Numbers and times as people read them; the exact value goes into a title.

const whole = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]];

export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

export function compact(value) {
  return value === null || value === undefined ? "–" : value < 100_000 ? whole.format(value) : short.format(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const [unit, size] of UNITS) if (value >= size) return `${trim(value / size)} ${unit}`;
  return `${Math.round(value)} B`;
}

function trim(value) {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}

export function percent(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0 %";
  return value < 0.001 ? "< 0.1 %" : `${(value * 100).toFixed(value < 0.1 ? 1 : 0)} %`;
}

export const ROWS_ABOUT = "Rows in data files; deleted rows are included";

// The share of rows that position deletes mark; unknown if there are equality deletes.
export function deletedShare({ delete_ratio: ratio, equality_deletes: equality }) {
  return equality > 0 || ratio === null || ratio === undefined ? null : Math.min(1, ratio);
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function age(ms, now = Date.now()) {
  if (ms === null || ms === undefined) return "never";
  const seconds = Math.max(0, (now - ms) / 1000);
  if (seconds < 60) return "just now";
  for (const [unit, length] of [["y", 31_536_000], ["mo", 2_592_000], ["d", 86_400], ["h", 3600], ["min", 60]]) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit} ago`;
  }
  return "";
}

export function when(ms) {
  if (ms === null || ms === undefined) return "";
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return `${ms} ms`; // writers may put any number
  return `${date.toISOString().replace("T", " ").slice(0, 19)} UTC`;
}

// Long text in places that have little room; whatever it holds, one line of it.
export function oneLine(text, most = 300) {
  const line = text.replace(/[\r\n\t\u2028\u2029]+/g, " ");
  return line.length > most ? `${line.slice(0, most)}…` : line;
}
