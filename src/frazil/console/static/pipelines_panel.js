// What is next to the graph: a pipeline, model or table with its state, runs and columns, and where a column comes from.

import { get, tablePath } from "./api.js";
import { command, commandLine, h, s } from "./dom.js";
import { age, compact, count, oneLine, plural, when } from "./format.js";
import { hash } from "./shell.js";

const LEVELS = { "up to date": "fine", "out of date": "due", fails: "error", unknown: "off" };
const MOST_DEEP = 20; // steps of a trace

// The dot and the words of a box.
export function described(box) {
  const { state, stream } = box;
  if (stream?.is_live) return { level: "fine", text: speedText(box) };
  if (stream) return { level: "off", text: `last rows ${age(stream.commits[0][0])}` };
  if (state) return { level: LEVELS[state.status] ?? "off", text: `${state.status}${state.lag_ms === null ? "" : ` for ${lag(state.lag_ms)}`}` };
  if (box.kind === "table" || box.kind === "model") return { level: null, text: box.exists ? (box.committed_ms === null ? "empty" : `written ${age(box.committed_ms)}`) : "not in the catalog" };
  return { level: null, text: box.mode ?? "" };
}

export function lag(ms) {
  if (ms === null || ms === undefined) return "–";
  for (const [unit, length] of [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]]) if (ms >= length) return `${Math.floor(ms / length)} ${unit}`;
  return `${Math.round(ms)} ms`;
}

export function seconds(value) {
  return value === null || value === undefined ? "–" : value < 10 ? `${value.toFixed(1)} s` : value < 120 ? `${Math.round(value)} s` : `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

// What a stream says about itself, else what its commits tell.
export function speedOf({ stream, progress }) {
  const rate = progress?.rows_per_second ?? stream?.rows_per_second ?? null;
  const batch = progress?.batch_seconds ?? (stream ? stream.interval_ms / 1000 : null);
  return { rate, batch, byCommits: typeof progress?.batch_seconds !== "number" };
}

function speedText(box) {
  const { rate } = speedOf(box);
  return rate === null ? "live" : `live, ${compact(Math.round(rate))} rows/s`;
}

export function badge(box) {
  const { level, text } = described(box);
  return h("span", { class: `health ${level ?? "off"}` }, level ? h("i") : null, text || box.kind);
}

// Draws the panel of a box; `choose(id, column)` goes to another one.
export async function drawPanel(panel, box, { data, warehouse, column, choose, trace, signal }) {
  const link = box.table && box.exists !== false && box.kind !== "pipeline" ? h("a", { href: hash("table", warehouse, box.table.slice(0, -1).join("\x1f"), box.table.at(-1)) }, "Open the table") : null;
  const runs = h("div", {}, h("p", { class: "muted" }, "Loading…"));
  panel.replaceChildren(...([
    h("p", { class: "muted kind" }, KINDS[box.kind]),
    h("h2", { class: "panel-title" }, h("bdi", {}, oneLine(box.label, 200))),
    h("p", { class: "lead" }, badge(box), link),
    box.state?.reason ? h("p", { class: "reason" }, h("bdi", {}, oneLine(box.state.reason, 600))) : null,
    pairs(facts(box, data)),
    ...streamPart(box),
    ...columnPart(box, { data, column, choose, trace }),
    ...(box.table ? [h("h2", {}, "Last runs"), runs] : []),
    h("h2", {}, "On the command line"),
    ...commands(box).map(command),
  ].filter(Boolean)));
  if (!box.table) return;
  try {
    const found = await get(tablePath({ warehouse, namespace: box.table.slice(0, -1), name: box.table.at(-1) }, "runs"), { signal });
    const own = found.runs.filter((run) => box.kind !== "pipeline" || run.pipeline === box.label).slice(0, 6);
    runs.replaceChildren(own.length ? h("ul", { class: "run-list" }, own.map(runLine)) : h("p", { class: "muted" }, "No run is noted."));
  } catch (error) {
    if (error.name !== "AbortError" && error.status !== 401) runs.replaceChildren(h("p", { class: "muted" }, box.exists === false || error.status === 404 ? "Nothing has run yet." : error.message));
  }
}

const KINDS = { source: "Source", pipeline: "Pipeline", model: "Model", table: "Table" };

function pairs(entries) {
  const shown = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "pairs" }, shown.map(([name, value]) => [h("dt", {}, name), h("dd", {}, h("bdi", {}, value))]));
}

function facts(box, data) {
  const labels = new Map(data.boxes.map((each) => [each.id, each.label]));
  const names = (ids) => oneLine(ids.map((id) => labels.get(id)).join(", "), 400);
  return [
    ["Mode", box.mode],
    ["Rows", box.rows === undefined ? null : count(box.rows)],
    ["Last commit", box.committed_ms ? age(box.committed_ms) : null],
    ["Reads", names(data.arrows.filter(([, to]) => to === box.id).map(([from]) => from))],
    ["Feeds", names(data.arrows.filter(([from]) => from === box.id).map(([, to]) => to))],
    ["Group", box.group],
    ["Tags", box.tags?.join(", ")],
    ["Declared", box.kind === "source" || box.declared || box.kind === "table" ? null : "not in this project"],
  ];
}

function streamPart(box) {
  if (!box.stream && !box.progress) return [];
  return [h("h2", {}, "Stream"), pairs(streamFacts(box)), ...(box.stream ? [bars(box.stream.commits)] : [])];
}

// The rows of the last commits, the newest on the right.
export function bars(commits) {
  const rows = commits.map(([, number]) => number).reverse();
  const most = Math.max(...rows, 1);
  const title = `${plural(rows.reduce((sum, number) => sum + number, 0), "row")} in the last ${plural(rows.length, "commit")}`;
  const rects = rows.map((number, at) => s("rect", { x: at * 5, y: 23 - 20 * (number / most), width: 3.6, height: 1 + 20 * (number / most), rx: 0.8, class: "on" }));
  return s("svg", { class: "bars", viewBox: "0 0 300 24", preserveAspectRatio: "xMinYMid", role: "img", "aria-label": title }, s("title", {}, title), ...rects);
}

export function streamFacts(box) {
  const { rate, batch, byCommits } = speedOf(box);
  const { progress } = box;
  return [
    ["Rows per second", rate === null ? "–" : compact(rate)],
    [byCommits ? "Between commits" : "Micro-batch", seconds(batch)],
    ["Lag", typeof progress?.lag === "number" ? plural(progress.lag, "message") : null],
    ["Batches", typeof progress?.batches === "number" ? count(progress.batches) : null],
    ["Quarantined", typeof progress?.quarantined === "number" ? count(progress.quarantined) : null],
  ];
}

function runLine(run) {
  const failed = run.status !== "committed";
  return h(
    "li",
    {},
    h("span", { class: `health ${failed ? "error" : "fine"}` }, h("i"), failed ? "failed" : `${compact(run.rows)} rows`),
    h("span", { class: "muted" }, seconds(run.seconds)),
    run.quarantined ? h("span", { class: "minus" }, `${compact(run.quarantined)} rejected`) : null,
    h("span", { class: "muted when-run", title: when(run.started_at) }, age(run.started_at)),
    run.error ? h("p", { class: "run-error" }, h("bdi", {}, oneLine(run.error, 300))) : null,
  );
}

function commands(box) {
  const lines = [];
  if (box.node) lines.push(commandLine("graph", [`+${box.node}`], "--state --columns"), commandLine("run", [box.node], "--dry-run"));
  if (box.table) lines.push(commandLine("runs", [box.table.join(".")]), commandLine("log", [box.table.join(".")]));
  return lines.length ? lines : [commandLine("graph", [], "--state")];
}

// --- columns ---------------------------------------------------------------------------------------------------------

function columnPart(box, { data, column, choose, trace }) {
  if (!box.columns) return [];
  const chosen = box.columns.find((each) => each.name === column);
  const list = h("div", { class: "column-list", role: "group", "aria-label": "Columns" }, box.columns.map((each) => h("button", { type: "button", class: "chip", "aria-pressed": String(each === chosen), onclick: () => choose(box.id, each === chosen ? null : each.name) }, h("bdi", {}, oneLine(each.name, 60)))));
  const note = box.columns_unknown ? `Columns unknown: ${box.columns_unknown}` : box.columns.length ? null : "No columns are known.";
  const parts = [h("h2", {}, "Columns"), note ? h("p", { class: "muted" }, note) : null, box.columns.length ? list : null];
  if (!chosen) return [...parts, box.columns.length ? h("p", { class: "muted" }, "Choose a column to see where it comes from.") : null];
  const boxes = new Map(data.boxes.map((each) => [each.id, each]));
  const on = new Set();
  const tree = origins(boxes, box, chosen, choose, on);
  const users = data.boxes.flatMap((each) => (each.columns ?? []).filter((one) => one.inputs.some(([id, name]) => id === box.id && name === chosen.name)).map((one) => [each, one.name]));
  trace(on);
  return [
    ...parts,
    h("h2", {}, "Where it comes from"),
    h("ul", { class: "trace" }, tree),
    users.length ? [h("h2", {}, "What is computed from it"), h("ul", { class: "trace" }, users.map(([each, name]) => h("li", {}, jump(each, name, choose))))] : null,
  ].flat();
}

function jump(box, name, choose) {
  return h("button", { type: "button", class: "jump", onclick: () => choose(box.id, name) }, h("bdi", {}, oneLine(`${box.label}.${name}`, 120)));
}

// A column with its expression, and below it the columns that the expression uses.
function origins(boxes, box, column, choose, on, path = []) {
  on.add(box.id);
  const key = `${box.id}\x1f${column.name}`;
  const circle = path.includes(key) || path.length >= MOST_DEEP;
  const same = column.expression === null || column.expression === column.name;
  const inputs = circle ? [] : column.inputs.flatMap(([id, name]) => {
    const other = boxes.get(id);
    if (!other) return [];
    const found = other.columns?.find((each) => each.name === name) ?? { name, expression: null, unknown: null, inputs: [] };
    return [origins(boxes, other, found, choose, on, [...path, key])];
  });
  return h("li", {}, jump(box, column.name, choose), same ? null : h("code", { class: "expression" }, oneLine(column.expression, 400)), column.unknown ? h("p", { class: "muted" }, `unknown: ${oneLine(column.unknown, 300)}`) : null, inputs.length ? h("ul", { class: "trace" }, inputs) : origin(boxes, box));
}

// Where a column has no origin among the columns that are known: what fills its table.
function origin(boxes, box) {
  if (box.kind !== "table") return null;
  const fills = [...boxes.values()].filter((each) => each.kind === "pipeline" && each.table.join("\x1f") === box.table.join("\x1f"));
  return fills.length ? h("p", { class: "muted" }, "filled by ", fills.map((each, at) => [at ? ", " : "", h("bdi", {}, oneLine(each.label, 80))]), ", a function of Python") : null;
}
