// The pipelines page: the graph as a picture and as a list, runs, streams. What the catalog has recorded is drawn first;
// what the project declares, and its states, are added when they are there.

import { apiPath, get, tablePath } from "./api.js";
import { command, commandLine, h, icon, problem } from "./dom.js";
import { age, bytes, compact, count, oneLine, plural, when } from "./format.js";
import { Grid } from "./grid.js";
import { badge, bars, described, drawPanel, lag, seconds, streamFacts } from "./pipelines_panel.js";
import { Picture } from "./pipelines_picture.js";
import { bindKeys, drawNav, go, hash, show } from "./shell.js";

const TABS = [["graph", "Graph", graphTab], ["list", "List", listTab], ["runs", "Runs", runsTab], ["streams", "Streams", streamsTab]];
const REFRESH_MS = 5000; // of streams

export async function page({ warehouse, parts, query }, signal) {
  drawNav("pipelines");
  const at = Math.max(0, TABS.findIndex(([key]) => key === parts[0]));
  const open = (index) => go("pipelines", warehouse, TABS[(index + TABS.length) % TABS.length][0]);
  const search = h("input", { type: "search", "aria-label": "Search pipelines and tables", placeholder: "Search", autocomplete: "off", spellcheck: "false" });
  const status = h("p", { class: "status", role: "status" }, "Loading…");
  const note = h("div", { class: "project-note" });
  const body = h("div", { class: "tab-body full" }, h("p", { class: "muted loading" }, "Loading…"));
  const it = { warehouse, signal, body, search, tab: TABS[at][0], data: null, states: {}, node: query.get("node"), column: query.get("column"), draw: () => {} };
  show(
    "Pipelines",
    h("header", { class: "page-head" }, h("h1", {}, "Pipelines"), status, h("div", { class: "search" }, icon("search"), search, h("kbd", { "aria-hidden": "true" }, "/"))),
    note,
    h("nav", { class: "tabs", "aria-label": "Of pipelines" }, TABS.map(([key, label], index) => h("a", { href: hash("pipelines", warehouse, key), "aria-current": index === at ? "page" : null }, label))),
    body,
    h("footer", { class: "page-foot" }, command(commandLine("graph", [], "--state --columns"))),
  );
  bindKeys({
    "/": () => { search.focus(); search.select(); },
    "[": () => open(at - 1),
    "]": () => open(at + 1),
    r: () => dispatchEvent(new HashChangeEvent("hashchange")),
    Escape: () => {
      if (document.activeElement === search) { search.value = ""; it.draw(); search.blur(); } else if (it.node) choose(it, null);
      else go("tables", warehouse);
    },
  });
  search.addEventListener("input", () => it.draw());
  const draw = () => {
    withStates(it);
    status.textContent = summary(it.data);
    note.replaceChildren(...projectNote(it.data.project, it.stateError));
    it.draw();
  };
  try {
    it.data = await load(it);
    TABS[at][2](it, choose);
    draw();
    if (it.data.project.status !== "none") await addProject(it, draw);
    while (it.data.remaining && !signal.aborted) { it.data = await load(it); draw(); }
  } catch (error) {
    if (error.name !== "AbortError" && error.status !== 401) body.replaceChildren(problem(error));
  }
}

function load({ warehouse, signal }, declared) {
  return get(apiPath(warehouse, "pipelines"), { query: { declared }, signal });
}

// The files of the project may have to be loaded, and the states found, by a process of its own.
async function addProject(it, draw) {
  it.data = await load(it, "wait");
  draw();
  if (it.data.project.status !== "read") return;
  it.asking = true;
  draw();
  try {
    const { states, error } = await get(apiPath(it.warehouse, "pipelines", "states"), { signal: it.signal });
    Object.assign(it, { states, stateError: error });
  } catch (error) {
    if (error.name === "AbortError" || error.status === 401) throw error;
    it.stateError = error.message;
  }
  it.asking = false;
  draw();
}

function withStates(it) {
  for (const box of it.data.boxes) if (box.node && it.states[box.node]) box.state = it.states[box.node];
}

function summary({ boxes, tables, remaining, project }) {
  const makers = boxes.filter((box) => box.kind === "pipeline" || box.kind === "model").length;
  const late = boxes.filter((box) => box.state?.status === "out of date").length;
  const words = [`${count(makers)} ${makers === 1 ? "pipeline or model" : "pipelines and models"}`, late ? `${count(late)} out of date` : null, `of ${plural(tables, "table")}`];
  return `${words.filter(Boolean).join(", ")}${project.name ? ` · project ${oneLine(project.name, 60)}` : ""}${remaining ? ` · looking at ${plural(remaining, "more table")}…` : ""}`;
}

function projectNote(project, stateError) {
  if (project.status === "failed") return [h("div", { class: "notice bad", role: "alert" }, h("strong", {}, "The project cannot be loaded"), h("pre", { tabindex: 0 }, project.error))];
  if (stateError) return [h("div", { class: "notice", role: "status" }, h("strong", {}, "States are those of the catalog alone"), h("pre", { tabindex: 0 }, stateError))];
  if (project.status === "unread") return [h("p", { class: "muted notice-line" }, "Loading the project…")];
  return [];
}

// A box that is chosen stands in the address, for who comes back or gets the link.
function choose(it, node, column = null) {
  Object.assign(it, { node, column });
  const query = new URLSearchParams();
  if (node) query.set("node", node);
  if (column) query.set("column", column);
  history.replaceState(null, "", `${hash("pipelines", it.warehouse, it.tab)}${node ? `?${query}` : ""}`);
  it.draw();
}

function matching(it) {
  const words = it.search.value.toLowerCase().split(/\s+/).filter(Boolean);
  return it.data.boxes.filter((box) => words.every((word) => box.label.toLowerCase().includes(word)));
}

function nothing(it) {
  if (it.search.value) return h("p", {}, "Nothing matches.");
  const { status } = it.data.project;
  const how = status === "none" ? "There is no lakehouse.py where this server runs. Start one, and serve from its folder:" : "Nothing is declared, and nothing has written with its progress yet.";
  return h("div", {}, h("p", {}, "There are no pipelines yet."), h("p", { class: "muted" }, how), command(status === "none" ? "frazil init lakehouse" : commandLine("run", [], "--dry-run")));
}

// --- graph and list --------------------------------------------------------------------------------------------------

function withPanel(it, choose, main) {
  const panel = h("aside", { class: "side-panel", "aria-label": "Details", hidden: true });
  const split = h("div", { class: "split" }, main, panel);
  it.body.replaceChildren(split);
  let drawn = null;
  return (trace) => {
    const box = it.data.boxes.find((each) => each.id === it.node);
    split.classList.toggle("single", !box);
    panel.hidden = !box;
    const key = JSON.stringify([it.node, it.column, box?.state, box?.columns?.length, it.data.boxes.length]);
    if (!box || key === drawn) return;
    drawn = key;
    const had = panel.contains(document.activeElement) ? document.activeElement.textContent : null;
    drawPanel(panel, box, { data: it.data, warehouse: it.warehouse, column: it.column, choose: (id, column) => choose(it, id, column), trace, signal: it.signal });
    if (had !== null) [...panel.querySelectorAll("button")].find((button) => button.textContent === had)?.focus();
  };
}

function graphTab(it, choose) {
  const picture = new Picture({ onChoose: (id) => choose(it, it.node === id ? null : id), describe: described });
  const empty = h("div", { class: "grid-empty" });
  const main = h("div", { class: "grid-frame" }, picture.element, empty);
  const drawPanelOf = withPanel(it, choose, main);
  let drawn = null;
  it.draw = () => {
    const focused = picture.svg.contains(document.activeElement) ? picture.current : null;
    const shape = JSON.stringify([it.data.columns, it.data.rows, it.data.boxes.map((box) => [box.id, box.column, box.row])]);
    picture.draw(it.data);
    if (shape !== drawn) picture.fit();
    drawn = shape;
    if (focused) picture.elements.get(focused)?.focus();
    let traced = null;
    drawPanelOf((boxes) => (it.traced = [it.node, it.column, boxes]));
    if (it.column && it.traced?.[0] === it.node && it.traced[1] === it.column) traced = it.traced[2];
    const found = it.search.value ? new Set(matching(it).map((box) => box.id)) : null;
    picture.mark(it.node, found ?? traced);
    empty.hidden = it.data.boxes.length > 0;
    picture.element.hidden = !it.data.boxes.length;
    if (!it.data.boxes.length) empty.replaceChildren(nothing(it));
  };
}

function listTab(it, choose) {
  const labels = (ids) => {
    const names = ids.map((id) => it.data.boxes.find((box) => box.id === id)?.label).filter(Boolean).join(", ");
    return h("bdi", { class: "muted", title: names }, oneLine(names, 120));
  };
  const grid = new Grid({
    label: "Pipelines, models and tables",
    columns: [
      { key: "name", title: "Name", width: "minmax(140px, 1.4fr)", cell: (box) => h("bdi", { title: box.label }, oneLine(box.label, 120)) },
      { key: "kind", title: "Kind", width: "74px", cell: (box) => h("span", { class: "muted" }, box.kind) },
      { key: "state", title: "State", width: "minmax(110px, 1fr)", cell: badge },
      { key: "lag", title: "Lag", width: "70px", right: true, least: 480, cell: (box) => (box.state ? lag(box.state.lag_ms) : "") },
      { key: "rows", title: "Rows", width: "80px", right: true, least: 620, cell: (box) => (box.rows === undefined ? "" : compact(box.rows)) },
      { key: "commit", title: "Last commit", width: "100px", right: true, least: 700, cell: (box) => (box.committed_ms ? h("span", { title: when(box.committed_ms) }, age(box.committed_ms)) : "") },
      { key: "reads", title: "Reads", width: "minmax(90px, 1fr)", least: 860, cell: (box) => labels(it.data.arrows.filter(([, to]) => to === box.id).map(([from]) => from)) },
      { key: "feeds", title: "Feeds", width: "minmax(90px, 1fr)", least: 980, cell: (box) => labels(it.data.arrows.filter(([from]) => from === box.id).map(([, to]) => to)) },
    ],
    onOpen: (box) => choose(it, it.node === box.id ? null : box.id),
    multi: (box) => box.id === it.node,
    empty: () => nothing(it),
  });
  const drawPanelOf = withPanel(it, choose, grid.element);
  it.draw = () => {
    const place = (box) => [box.column ?? Infinity, box.row ?? Infinity];
    grid.setRows(matching(it).sort((a, b) => (place(a)[0] === place(b)[0] ? place(a)[1] - place(b)[1] : place(a)[0] - place(b)[0])));
    drawPanelOf(() => {});
  };
}

// --- runs ------------------------------------------------------------------------------------------------------------

function runsTab(it) {
  const grid = new Grid({
    label: "Runs",
    rowHeight: 36,
    columns: [
      { key: "started", title: "Started", width: "100px", cell: (run) => h("span", { title: when(run.started_at) }, age(run.started_at)) },
      { key: "pipeline", title: "Pipeline", width: "minmax(120px, 1fr)", cell: (run) => h("bdi", { title: `${run.pipeline} → ${run.table}` }, oneLine(run.pipeline, 120)) },
      { key: "status", title: "Status", width: "110px", cell: (run) => h("span", { class: `health ${run.status === "committed" ? "fine" : "error"}` }, h("i"), oneLine(run.status, 30)) },
      { key: "seconds", title: "Duration", width: "80px", right: true, cell: (run) => seconds(run.seconds) },
      { key: "files", title: "Files", width: "60px", right: true, least: 820, cell: (run) => compact(run.files) },
      { key: "bytes", title: "Read", width: "76px", right: true, least: 760, cell: (run) => (run.bytes ? bytes(run.bytes) : "–") },
      { key: "rows_in", title: "Rows in", width: "80px", right: true, least: 680, cell: (run) => compact(run.rows_in) },
      { key: "rows", title: "Rows", width: "80px", right: true, least: 460, cell: (run) => compact(run.rows) },
      { key: "rejects", title: "Rejects", width: "70px", right: true, least: 540, cell: (run) => (run.quarantined ? h("span", { class: "minus" }, compact(run.quarantined)) : "0") },
      { key: "error", title: "Error", width: "minmax(80px, 1.4fr)", least: 900, cell: (run) => (run.error ? h("bdi", { class: "minus", title: run.error }, oneLine(run.error, 300)) : "") },
    ],
    onOpen: (run) => (location.hash = addressOf(it, it.data.boxes.find((box) => box.table?.join(".") === run.table && [run.pipeline, run.table].includes(box.label)))),
    empty: () => (loading ? "Loading…" : it.data.boxes.length ? "No run is noted." : nothing(it)),
  });
  it.body.replaceChildren(grid.element);
  const found = new Map(); // by table
  let loading = false;
  const draw = () => {
    const words = it.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const runs = [...found.values()].flat().filter((run) => words.every((word) => `${run.pipeline} ${run.table} ${run.status} ${run.error ?? ""}`.toLowerCase().includes(word)));
    grid.setRows(runs.sort((a, b) => b.started_at - a.started_at));
  };
  it.draw = () => {
    draw();
    if (!loading) readAll();
  };
  const readAll = async () => {
    loading = true;
    const filled = it.data.boxes.filter((box) => box.kind === "model" || box.kind === "pipeline");
    const tables = new Map(filled.map((box) => [box.table.join("."), { warehouse: it.warehouse, namespace: box.table.slice(0, -1), name: box.table.at(-1) }]));
    for (const [label, table] of tables) {
      if (found.has(label) || it.signal.aborted) continue;
      const runs = await get(tablePath(table, "runs"), { signal: it.signal }).catch((error) => ([403, 404].includes(error.status) ? { runs: [] } : Promise.reject(error))).catch((error) => (error.name === "AbortError" ? null : { runs: [] }));
      if (runs === null) return;
      found.set(label, runs.runs.map((run) => ({ ...run, table: label })));
      draw();
    }
    loading = false;
    draw();
  };
}

// --- streams ---------------------------------------------------------------------------------------------------------

function streamsTab(it) {
  const list = h("div", { class: "streams" });
  it.body.replaceChildren(list);
  it.draw = () => {
    const streams = matching(it).filter((box) => box.stream || box.progress);
    list.replaceChildren(...(streams.length ? streams.map((box) => card(it, box)) : [h("div", { class: "nothing" }, h("p", {}, "No stream has committed yet."), h("p", { class: "muted" }, "A pipeline over Kafka, or over files that keep coming:"), command(commandLine("stream", ["PIPELINE"])))]));
  };
  const again = async () => {
    try {
      const fresh = await load(it);
      it.data = fresh;
      it.draw();
    } catch (error) {
      if (error.name === "AbortError" || error.status === 401) return;
    }
    wait();
  };
  const wait = () => {
    const timer = setTimeout(again, REFRESH_MS);
    it.signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  };
  wait();
}

// The address of a box in the graph.
function addressOf(it, box) {
  const address = hash("pipelines", it.warehouse, "graph");
  return box ? `${address}?${new URLSearchParams({ node: box.id })}` : address;
}

function card(it, box) {
  const live = box.stream?.is_live;
  const last = box.stream ? box.stream.commits[0][0] : box.progress?.committed_at ? box.progress.committed_at * 1000 : null;
  return h(
    "section",
    { class: "stream-card", "aria-label": oneLine(box.label, 80) },
    h("header", {}, h("span", { class: `health ${live ? "fine" : "off"}` }, h("i"), live ? "live" : "quiet"), h("h2", {}, h("bdi", {}, oneLine(box.label, 80))), h("a", { href: addressOf(it, box) }, h("bdi", {}, oneLine(box.table.join("."), 80)))),
    h("dl", { class: "facts" }, [...streamFacts(box).filter(([, value]) => value !== null), ["Last commit", age(last)]].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    box.stream ? bars(box.stream.commits) : null,
  );
}
