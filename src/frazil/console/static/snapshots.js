// The snapshots of a table as a graph: rows in sight only, whatever their number; branches and tags are lanes.

import { get, tablePath } from "./api.js";
import { command, commandLine, h, s } from "./dom.js";
import { ROWS_ABOUT, age, bytes, compact, count, oneLine, plural, when } from "./format.js";
import { Grid } from "./grid.js";
import { snapshotActions } from "./refs.js";
import { hash } from "./shell.js";

const LANE = 16, ROW = 36, LEFT = 18, COLOURS = 6;

export async function snapshotsTab(table, body, { signal }) {
  const data = await get(tablePath(table, "snapshots"), { signal });
  const refs = new Map();
  for (const ref of data.refs) refs.set(ref.row, [...(refs.get(ref.row) ?? []), ref]);
  const rows = data.id.map((id, at) => ({ at, id, refs: refs.get(at) ?? [] }));
  const lanes = Math.max(1, ...data.lines.map((line) => line[3] + 1));
  const width = LEFT + lanes * LANE + 4;
  const chosen = [];
  const side = h("aside", { class: "side-panel", "aria-label": "Snapshot" });

  const delta = (added, removed) => [added ? h("span", { class: "plus" }, `+${compact(added)}`) : null, removed ? h("span", { class: "minus" }, `−${compact(removed)}`) : null].filter(Boolean);
  const grid = new Grid({
    label: "Snapshots",
    rowHeight: ROW,
    multi: (row) => chosen.includes(row),
    columns: [
      { key: "graph", title: "", width: `${width - 24}px`, cell: () => "" },
      { key: "what", title: "Snapshot", width: "minmax(120px, 1fr)", cell: (row) => h("div", { class: "what" }, h("span", {}, data.operation[row.at] || "commit"), ...row.refs.map((ref) => mark(ref)), data.by[row.at] ? h("span", { class: "muted" }, oneLine(data.by[row.at], 40)) : "") },
      { key: "change", title: "Rows changed", width: "110px", right: true, least: 460, cell: (row) => h("div", { class: "delta" }, ...delta(data.added_rows[row.at], data.removed_rows[row.at])) },
      { key: "rows", title: "Rows", width: "80px", right: true, least: 560, about: ROWS_ABOUT, cell: (row) => compact(data.rows[row.at]) },
      { key: "files", title: "Files", width: "64px", right: true, least: 640, cell: (row) => compact(data.data_files[row.at]) },
      { key: "bytes", title: "Size", width: "76px", right: true, least: 720, cell: (row) => bytes(data.bytes[row.at]) },
      { key: "time", title: "When", width: "84px", right: true, cell: (row) => h("span", { title: when(data.time_ms[row.at]) }, age(data.time_ms[row.at])) },
    ],
    onOpen: (row, event) => choose(row, event.shiftKey || event.ctrlKey || event.metaKey || event.key === " "),
    empty: () => "No snapshot yet: nothing was written.",
  });
  grid.overlay = (first, last) => drawGraph(data, first, last, width, chosen);
  grid.view.addEventListener("keydown", (event) => {
    if (event.key !== " " || grid.cursor < 0) return;
    event.preventDefault();
    choose(grid.rows[grid.cursor], true);
  });

  function choose(row, add) {
    const had = chosen.indexOf(row);
    if (add && had >= 0) chosen.splice(had, 1);
    else if (add && chosen.length) chosen.splice(1, 1, row);
    else chosen.splice(0, chosen.length, row);
    grid.draw(true);
    drawSide();
  }

  function drawSide() {
    const [one, other] = chosen;
    side.replaceChildren(...(other ? comparison(table, data, ...[one, other].sort((a, b) => b.at - a.at)) : one ? details(table, data, one) : hint()));
  }

  body.classList.add("full");
  body.replaceChildren(h("div", { class: "split" }, grid.element, side));
  grid.setRows(rows);
  if (rows.length) choose(rows[0], false);
}

function hint() {
  return [h("p", { class: "muted" }, "Choose a snapshot. With Shift, Ctrl or Space, choose a second one to compare.")];
}

export function mark(ref) {
  return h("span", { class: `ref ${ref.type}`, title: `${ref.type} ${ref.name}` }, h("bdi", {}, oneLine(ref.name, 40)));
}

// Lines and dots of the rows from `first` to `last`.
function drawGraph(data, first, last, width, chosen) {
  const x = (lane) => LEFT + lane * LANE + 6;
  const y = (row) => (row - first) * ROW + ROW / 2;
  const parts = [];
  for (const [from, to, joins, lane] of data.lines) {
    const end = Math.max(to, joins);
    if (from > last || end < first) continue;
    const top = y(Math.max(from, first - 1)), bottom = y(Math.min(to, last + 1));
    if (bottom > top) parts.push(s("path", { d: `M${x(lane)} ${top}V${bottom}`, class: `lane c${lane % COLOURS}` }));
    if (joins >= 0 && joins >= first - 1 && to <= last + 1) {
      const other = data.lines[data.line[joins]][3];
      const start = Math.max(y(to), -ROW), target = Math.min(y(joins), (last - first + 1) * ROW);
      const straight = Math.max(start, y(joins) - ROW);
      const path = y(joins) <= (last - first + 1) * ROW ? `M${x(lane)} ${start}V${straight}C${x(lane)} ${y(joins) - 6} ${x(other)} ${y(joins) - ROW + 10} ${x(other)} ${y(joins)}` : `M${x(lane)} ${start}V${target}`;
      parts.push(s("path", { d: path, class: `lane c${lane % COLOURS}` }));
    } else if (joins > last && to < last) {
      parts.push(s("path", { d: `M${x(lane)} ${Math.max(y(to), -ROW)}V${(last - first + 1) * ROW}`, class: `lane c${lane % COLOURS}` }));
    }
  }
  for (let row = first; row < last; row++) {
    const lane = data.lines[data.line[row]][3];
    const picked = chosen.some((each) => each.at === row);
    parts.push(s("circle", { cx: x(lane), cy: y(row), r: picked ? 5.5 : 4, class: `dot c${lane % COLOURS}${picked ? " picked" : ""}` }));
  }
  const tall = (last - first) * ROW;
  return s("svg", { class: "graph", width, height: tall, viewBox: `0 0 ${width} ${tall}`, "aria-hidden": "true", style: { transform: `translateY(${first * ROW}px)` } }, ...parts);
}

function facts(entries) {
  return h("dl", { class: "pairs" }, entries.map(([name, value, className]) => [h("dt", {}, name), h("dd", { class: className }, value)]));
}

function details(table, data, { at, id, refs }) {
  const parent = data.parent[at];
  return [
    h("h2", {}, "Snapshot"),
    h("p", { class: "mono id" }, id),
    refs.length ? h("p", { class: "refs" }, refs.map(mark)) : "",
    facts([
      ["When", when(data.time_ms[at])],
      ["Operation", data.operation[at] || "–"],
      ["By", data.by[at] ? oneLine(data.by[at], 80) : "–"],
      ["Parent", parent >= 0 ? data.id[parent] : "–", "mono"],
      ["Schema", data.schema_id[at] ?? "–"],
      ["Rows", `${count(data.rows[at])} (+${count(data.added_rows[at] ?? 0)} −${count(data.removed_rows[at] ?? 0)})`],
      ["Data files", `${count(data.data_files[at])} (+${count(data.added_files[at] ?? 0)} −${count(data.removed_files[at] ?? 0)})`],
      ["Delete files", count(data.delete_files[at])],
      ["Size", bytes(data.bytes[at])],
    ]),
    snapshotActions(table, { id, refs }, data.refs.filter((ref) => ref.type === "branch").map((ref) => ({ name: ref.name, id: data.id[ref.row] }))),
    h("p", {}, h("a", { href: hash("table", table.warehouse, table.namespace.join("\x1f"), table.name, "rows", id) }, "Show the rows at this snapshot")),
    h("h2", {}, "On the command line"),
    command(commandLine("tag create", [table.label, "NAME"], `--at ${id}`)),
    command(commandLine("rollback", [table.label], `--at ${id}`)),
    h("p", { class: "muted" }, "Shift, Ctrl or Space chooses a second one to compare."),
  ];
}

function comparison(table, data, before, after) {
  const line = (name, key, show = count) => {
    const [a, b] = [data[key][before.at], data[key][after.at]];
    const change = a === null || b === null ? "" : b - a;
    const sign = change > 0 ? "+" : change < 0 ? "−" : "±";
    return h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "right" }, show(a)), h("td", { class: "right" }, show(b)), h("td", { class: `right ${change > 0 ? "plus" : change < 0 ? "minus" : "muted"}` }, change === "" ? "" : `${sign}${show(Math.abs(change))}`));
  };
  const steps = pathLength(data, before.at, after.at);
  const [a, b] = [data.schema_id[before.at], data.schema_id[after.at]];
  return [
    h("h2", {}, "Compare"),
    h("p", { class: "mono id" }, before.id, h("br"), after.id),
    h("p", { class: "muted" }, `${when(data.time_ms[before.at])} to ${when(data.time_ms[after.at])}. ${steps === null ? "The later one does not follow the earlier one." : `${plural(steps, "commit")} apart.`}`),
    h("table", { class: "plain compare" }, h("thead", {}, h("tr", {}, ["", "Before", "After", "Change"].map((title, at) => (title ? h("th", { scope: "col", class: at ? "right" : null }, title) : h("td"))))), h("tbody", {}, line("Rows", "rows"), line("Data files", "data_files"), line("Delete files", "delete_files"), line("Size", "bytes", bytes))),
    h("p", {}, a === b ? "The same schema." : `Schema ${a ?? "–"} became schema ${b ?? "–"}.`),
    h("h2", {}, "On the command line"),
    command(commandLine("diff", [table.label, before.id, after.id])),
  ];
}

// How many commits lead from one row to another; null if none do.
function pathLength(data, before, after) {
  let at = after, steps = 0;
  while (at >= 0 && at !== before && steps < data.id.length) { // parents may form a cycle
    at = data.parent[at];
    steps += 1;
  }
  return at === before ? steps : null;
}
