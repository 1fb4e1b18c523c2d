// Small parts that several tabs of a table are made of.

import { h, s } from "./dom.js";

export function section(title, ...content) {
  return h("section", { class: "block" }, h("h2", {}, title), ...content);
}

export function pairs(entries) {
  return h("dl", { class: "pairs" }, entries.map(([name, value, className]) => [h("dt", {}, name), h("dd", { class: className }, value)]));
}

// A table that scrolls by itself. heads: {title, right}; an empty title is no header.
export function plainTable(label, heads, rows, className = "") {
  const head = h("tr", {}, heads.map(({ title, right }) => (title ? h("th", { scope: "col", class: right ? "right" : null }, title) : h("td"))));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, h("table", { class: `plain ${className}` }, h("thead", {}, head), h("tbody", {}, rows)));
}

// Buttons of which one is on: [key, label, about] each.
export function choice(label, options, chosen, onChoose) {
  const buttons = options.map(([key, text, about]) => h("button", { type: "button", class: "chip", title: about, "aria-pressed": String(key === chosen), onclick: () => choose(key) }, text));
  const choose = (key) => {
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(options[at][0] === key)));
    onChoose(key);
  };
  return h("div", { class: "chips", role: "group", "aria-label": label }, buttons);
}

// A bar of several parts, each a share of the whole.
export function bar(className, shares) {
  let x = 0;
  const parts = shares.map(([share, kind]) => {
    const rect = s("rect", { x, width: 100 * share, height: 10, class: kind });
    x += 100 * share;
    return rect;
  });
  return s("svg", { class: className, viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, parts);
}

// A size as targets are set: in powers of two.
export function binarySize(value) {
  for (const [unit, length] of [["GiB", 1 << 30], ["MiB", 1 << 20], ["kiB", 1024]]) if (value >= length) return `${+(value / length).toFixed(1)} ${unit}`;
  return `${value} B`;
}

// Manifests that were not read, in words; null if all were.
export function unread({ manifests, manifests_read: read }) {
  if (read >= manifests) return null;
  const why = read >= 2000 ? "no more are read for a preview" : "stopped after 3 seconds";
  return h("p", { class: "muted" }, `Read ${read.toLocaleString("en-US")} of ${manifests.toLocaleString("en-US")} manifests: ${why}.`);
}
