// Charts of uPlot in the colours of the page. A canvas says nothing to a screen reader: show the numbers elsewhere, too.

import "./language.js"; // before uPlot
import uPlot from "./uplot.esm.js";
import { h } from "./dom.js";

const COLOURS = 6; // --c0 to --c5
const FONT = "11px ui-sans-serif, system-ui, sans-serif";
const watched = new Set();
let style = null;

// kind: "line", "area" or "bar". x: {title, values, time, labels}: numbers that grow (ms since 1970 if `time`); with
// `labels`, the values are left out and each label has a place of its own. series: [{title, values}], null for a gap.
// The element draws itself once it is on the page, and follows its width and the theme.
export function chart({ label, kind = "line", x, series, height = 260 }) {
  const element = h("div", { class: "chart", role: "img", "aria-label": label });
  element.style.minHeight = `${height}px`;
  const data = [x.labels ? x.labels.map((_, at) => at) : x.time ? x.values.map((ms) => ms / 1000) : x.values, ...series.map((each) => each.values)];
  let plot = null;
  const resized = new ResizeObserver(async () => {
    const width = Math.floor(element.clientWidth);
    if (!width) return;
    if (plot) return plot.setSize({ width, height });
    await styled();
    if (!plot && element.isConnected) {
      plot = new uPlot(options({ kind, x, series, width, height }), data, element);
      watched.add(new WeakRef(plot));
    }
  });
  resized.observe(element);
  return element;
}

function options({ kind, x, series, width, height }) {
  const bars = kind === "bar" ? uPlot.paths.bars({ size: [0.7, 72] }) : undefined;
  const ends = x.labels ? [-0.6, x.labels.length - 0.4] : null;
  const axis = { stroke: () => colour("--muted"), font: FONT, grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false } };
  const named = (at) => (Number.isInteger(at) ? short(x.labels[at] ?? "", 18) : "");
  return {
    width,
    height,
    ms: 1e-3,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
    scales: { x: { time: Boolean(x.time), range: ends ? () => ends : undefined }, y: { range: kind === "line" ? undefined : (_, low, high) => around(low, high) } },
    axes: [
      { ...axis, size: 34, grid: { show: false }, ...(x.labels ? { splits: () => places(x.labels.length, width), values: (_, places) => places.map(named) } : {}) },
      { ...axis, size: 62, values: (_, numbers) => numbers.map(compacted) },
    ],
    series: [
      { label: x.title, value: (_, value) => (value === null || value === undefined ? "–" : x.labels ? short(x.labels[value] ?? "", 60) : x.time ? new Date(value * 1000).toISOString().slice(0, 19).replace("T", " ") : exact.format(value)) },
      ...series.map((each, at) => ({
        label: short(each.title, 40),
        stroke: () => colour(`--c${at % COLOURS}`),
        fill: kind === "line" ? undefined : () => `${colour(`--c${at % COLOURS}`)}${kind === "bar" ? "cc" : "2b"}`, // #rrggbb and its opacity
        width: kind === "bar" ? 0 : 1.6,
        paths: bars,
        points: { show: kind === "line" && each.values.length < 60 },
        value: (_, value) => (value === null || value === undefined ? "–" : exact.format(value)),
      })),
    ],
  };
}

// Bars and areas stand on zero.
function around(low, high) {
  if (low === null || high === null) return [0, 1];
  const [least, most] = [Math.min(0, low), Math.max(0, high)];
  const room = (most - least || 1) * 0.05;
  return [least < 0 ? least - room : 0, most > 0 ? most + room : 0];
}

function places(number, width) {
  const step = Math.max(1, Math.ceil(number / Math.max(1, Math.floor(width / 110))));
  return Array.from({ length: Math.ceil(number / step) }, (_, at) => at * step);
}

const compactNumber = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 2 });
const exact = new Intl.NumberFormat("en-US", { maximumFractionDigits: 6 });

function compacted(value) {
  return value === null ? "" : Math.abs(value) >= 10_000 ? compactNumber.format(value) : exact.format(value);
}

function short(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// uPlot's own style sheet, loaded with the first chart.
function styled() {
  style ??= new Promise((resolve) => {
    const link = h("link", { rel: "stylesheet", href: "/console/static/uplot.css" });
    link.addEventListener("load", resolve);
    link.addEventListener("error", resolve);
    document.head.append(link);
  });
  return style;
}

function recolour() {
  for (const held of watched) {
    const plot = held.deref();
    if (!plot?.root.isConnected) watched.delete(held);
    else plot.redraw(false);
  }
}

new MutationObserver(recolour).observe(document.documentElement, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
