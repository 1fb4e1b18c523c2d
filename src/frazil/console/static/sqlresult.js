// What a query gives: rows in a grid, a chart of two or more columns, and what its scans have read.

import { chart } from "./chart.js";
import { h } from "./dom.js";
import { bytes, count, oneLine, plural } from "./format.js";
import { Grid } from "./grid.js";
import { bar, section } from "./parts.js";

const MOST_POINTS = 2000, MOST_SERIES = 6;

export function rowsView(answer) {
  const widths = answer.columns.map((column, at) => Math.min(360, Math.max(64, 8 * Math.max(column.name.length, ...answer.rows.slice(0, 60).map((row) => Math.min(48, row[at]?.length ?? 4))) + 12)));
  const cell = (at) => (row) =>
    row[at] === null ? h("span", { class: "null" }, "null") : h("bdi", { title: row[at].length > 40 ? row[at].slice(0, 600) : null }, oneLine(row[at], 200));
  const grid = new Grid({
    label: "Result",
    rowHeight: 30,
    columns: answer.columns.map((column, at) => ({ key: String(at), title: oneLine(column.name, 80), about: `${column.name}: ${column.type}`, width: `minmax(${widths[at]}px, ${column.number ? "max-content" : "1fr"})`, right: column.number, cell: cell(at) })),
    empty: () => "No rows.",
  });
  grid.view.style.setProperty("--wide", `${widths.reduce((sum, width) => sum + width + 14, 34)}px`);
  grid.element.classList.add("result-grid");
  grid.setRows(answer.rows);
  return grid.element;
}

// --- chart -----------------------------------------------------------------------------------------------------------

export function chartView(answer) {
  const numbers = answer.columns.map((column, at) => ({ ...column, at })).filter((column) => column.number);
  if (!numbers.length || !answer.rows.length) return h("p", { class: "muted hint" }, "A chart needs rows, and a column of numbers.");
  const others = answer.columns.map((column, at) => ({ ...column, at })).filter((column) => !column.number);
  const first = others.find((column) => column.time) ?? others[0] ?? numbers[0];
  const chosen = { split: -1, x: first.at, y: [(numbers.find((column) => column.at !== first.at) ?? numbers[0]).at], kind: first.time || first.number ? "line" : "bar" };
  const place = h("div", { class: "chart-place" });
  const select = (label, options, value, onChange) =>
    h("label", { class: "pick" }, label, h("select", { class: "field", onchange: (event) => { onChange(event.target.value); draw(); } }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, oneLine(text, 40)))));
  const ys = h("fieldset", { class: "chips plain-chips" }, h("legend", { class: "muted" }, "Values"));
  for (const column of numbers) {
    ys.append(h("button", { type: "button", class: "chip", "aria-pressed": String(chosen.y.includes(column.at)), onclick: (event) => {
      const on = !chosen.y.includes(column.at);
      if (on && chosen.y.length >= MOST_SERIES) return;
      chosen.y = on ? [...chosen.y, column.at] : chosen.y.filter((at) => at !== column.at);
      event.currentTarget.setAttribute("aria-pressed", String(on));
      draw();
    } }, h("bdi", {}, oneLine(column.name, 30))));
  }
  const draw = () => place.replaceChildren(chosen.y.length ? chartOf(answer, chosen) : h("p", { class: "muted hint" }, "Choose a column of values."));
  draw();
  const kinds = [["line", "Lines"], ["area", "Areas"], ["bar", "Bars"]];
  const columns = answer.columns.map((column, at) => [String(at), column.name]);
  const splits = [["-1", "nothing"], ...columns.filter(([at]) => !answer.columns[at].number)];
  const heads = [select("Chart", kinds, chosen.kind, (kind) => (chosen.kind = kind)), select("Along", columns, String(chosen.x), (at) => (chosen.x = Number(at))), select("Split by", splits, "-1", (at) => (chosen.split = Number(at)))];
  return h("div", { class: "chart-view" }, h("div", { class: "chart-head" }, heads, ys), place, answer.rows.length > MOST_POINTS ? h("p", { class: "muted hint" }, `The first ${count(MOST_POINTS)} rows.`) : null);
}

// The rows with one column for each value of a column, as far as there are colours: {columns, rows, y}.
function splitBy(answer, { x, y, split }) {
  const values = [...new Set(answer.rows.map((row) => row[split]))].slice(0, MOST_SERIES);
  const rows = new Map();
  for (const row of answer.rows) {
    if (!rows.has(row[x])) rows.set(row[x], [row[x], ...values.map(() => null)]);
    const at = values.indexOf(row[split]);
    if (at >= 0) rows.get(row[x])[at + 1] = row[y[0]];
  }
  return { columns: [answer.columns[x], ...values.map((value) => ({ name: value ?? "null" }))], rows: [...rows.values()], y: values.map((_, at) => at + 1) };
}

function chartOf(answer, { x, y, kind, split }) {
  if (split >= 0) {
    const { y: columns, ...parts } = splitBy(answer, { x, y, split });
    return chartOf(parts, { x: 0, y: columns, kind, split: -1 });
  }
  const along = answer.columns[x];
  const value = (text) => (text === null ? null : along.time ? Date.parse(text.length > 10 ? text.replace(" ", "T") : text) : Number(text));
  let rows = answer.rows.slice(0, MOST_POINTS);
  const isNumber = along.number || along.time;
  if (isNumber) rows = rows.filter((row) => Number.isFinite(value(row[x]))).sort((a, b) => value(a[x]) - value(b[x]));
  const axis = isNumber && kind !== "bar" ? { title: along.name, values: rows.map((row) => value(row[x])), time: along.time } : { title: along.name, labels: rows.map((row) => row[x] ?? "null") };
  const series = y.map((at) => ({ title: answer.columns[at].name, values: rows.map((row) => (row[at] === null || !Number.isFinite(Number(row[at])) ? null : Number(row[at]))) }));
  return chart({ label: `${series.map((each) => each.title).join(", ")} along ${along.name}`, kind, x: axis, series, height: 300 });
}

// --- explain ---------------------------------------------------------------------------------------------------------

const LAYERS = {
  "manifests by partition summaries": ["Manifests", "by what they say of partitions"],
  "data files by partition": ["Data files", "by their partition"],
  "data files by column bounds": ["Data files", "by the least and greatest values of columns"],
  "row groups": ["Row groups", "by statistics inside of the files"],
};

export function explainView(answer) {
  if (!answer.scans.length) return h("p", { class: "muted hint" }, "This query has read no table.");
  return h("div", { class: "explain" }, answer.scans.map(scanView));
}

function scanView(scan) {
  const { kept } = scan;
  const layers = scan.layers.filter((layer) => layer.total);
  const whole = Math.max(0, ...layers.filter((layer) => layer.layer !== "row groups" && layer.layer.startsWith("data files")).map((layer) => layer.bytes));
  const line = (layer) => {
    const [noun, how] = LAYERS[layer.layer] ?? [layer.layer, ""];
    const left = layer.total - layer.skipped;
    const terms = Object.entries(layer["skipped-by"]).sort((a, b) => b[1] - a[1]);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, noun, h("small", {}, how)),
      h("td", { class: "bar" }, bar("hist", [[left / layer.total, "data"], [layer.skipped / layer.total, "skipped"]])),
      h("td", { class: "right number" }, `${count(left)} of ${count(layer.total)}`),
      h("td", { class: "why" }, terms.length ? terms.slice(0, 3).map(([term, skipped]) => h("div", {}, `${count(skipped)} skipped by `, h("code", {}, h("bdi", {}, oneLine(term, 120))))) : h("span", { class: "muted" }, "none skipped")),
    );
  };
  return section(
    h("bdi", {}, oneLine(scan.table, 120)),
    h("p", { class: "muted" }, scan["snapshot-id"] ? `Snapshot ${scan["snapshot-id"]}` : "No snapshot yet", scan.filter === "true" ? ", no filter. " : [", where ", h("code", {}, h("bdi", {}, oneLine(scan.filter, 200))), ". "], scan.columns ? `${plural(scan.columns.length, "column")} of ${count(scan.all_columns)}.` : "All columns."),
    h("p", { class: "legend muted" }, h("span", {}, h("i", { class: "mark-read" }), "kept"), h("span", {}, h("i", { class: "mark-skipped" }), "skipped without being opened")),
    h("table", { class: "funnel" }, h("tbody", {}, layers.map(line))),
    h("p", {}, h("strong", {}, `${plural(kept.files, "file")} to read`), `, ${plural(kept.rows, "row")}, ${bytes(kept.bytes)}`, whole > kept.bytes ? ` of ${bytes(whole)}` : "", kept["delete-files"] ? `, ${plural(kept["delete-files"], "delete file")}` : "", "."),
  );
}
