// SQL over the lake: an editor, its result as rows, chart and picture of the scans, history, and time travel.

import { apiPath, get, post, tablePath } from "./api.js";
import { command, commandLine, h, problem } from "./dom.js";
import { Editor } from "./editor.js";
import { count, oneLine, plural, when } from "./format.js";
import { choice } from "./parts.js";
import { bindKeys, drawNav, show } from "./shell.js";
import { chartView, explainView, rowsView } from "./sqlresult.js";
import { chains, qualified, tablesOf, travel } from "./sqltext.js";
import { searchForm } from "./sqlsearch.js";

const KEPT = 50, LONGEST = 20_000; // queries in the history, and characters of one
const TURNS = 15; // attempts, one per second, while the server is busy
const LIMITS = [100, 1000, 10_000];
const VIEWS = [["rows", "Rows"], ["chart", "Chart"], ["scans", "Scans"], ["history", "History"]];
const DRAW = { rows: rowsView, chart: chartView, scans: explainView };

export async function page({ warehouse, query }, signal) {
  drawNav("sql");
  const page = new SqlPage(warehouse, query.get("q"), signal);
  show("SQL", ...page.elements);
  bindKeys({ r: () => page.run(), Escape: () => page.editor.field.focus(), "/": () => page.editor.field.focus() });
  signal.addEventListener("abort", () => page.cancel());
  page.editor.field.focus();
  await (page.loaded = page.loadTables());
}

class SqlPage {
  constructor(warehouse, asked, signal) {
    Object.assign(this, { warehouse, signal, tables: [], columns: new Map(), answer: null, running: null, view: "rows", limit: 1000 });
    this.known = new Map();
    this.kept = new Kept(warehouse);
    this.prepared = post(apiPath(warehouse, "query", "prepare"), {}, { signal }).catch(() => null);
    this.editor = new Editor({
      value: asked ?? this.kept.draft,
      complete: { tables: this.tables, columns: (parts) => this.columns.get(parts.join(".")) },
      onRun: () => this.run(),
      onChange: () => this.edited(),
    });
    this.status = h("p", { class: "status", role: "status" }, "Ctrl Enter runs the query. Ctrl Space completes.");
    this.button = h("button", { type: "button", class: "primary", onclick: () => (this.running ? this.cancel() : this.run()) }, "Run");
    this.download = h("button", { type: "button", class: "plain-button", disabled: true, onclick: () => this.saveCsv() }, "CSV");
    const limits = h("select", { class: "field", "aria-label": "Rows at most", onchange: (event) => { this.limit = Number(event.target.value); this.drawLine(); } }, LIMITS.map((limit) => h("option", { value: limit, selected: limit === this.limit }, `${count(limit)} rows`)));
    const search = h("button", { type: "button", class: "plain-button", "aria-expanded": "false", onclick: () => this.toggleSearch(search) }, "Vector search");
    this.searching = h("div", { class: "sql-search", hidden: true });
    this.time = h("div", { class: "travel", hidden: true });
    this.line = h("div", { class: "sql-line" });
    this.views = choice("Result", VIEWS, this.view, (view) => this.choose(view));
    this.result = h("div", { class: "sql-result", tabindex: 0, role: "region", "aria-label": "Result" });
    this.elements = [
      h("header", { class: "page-head" }, h("h1", {}, "SQL"), this.status, search, limits, this.download, this.button),
      this.searching,
      this.editor.element,
      this.time,
      this.line,
      this.views,
      this.result,
    ];
    this.choose(this.kept.queries.length ? "history" : "rows");
    this.edited();
  }

  // --- tables and columns ----------------------------------------------------------------------------------------

  async loadTables() {
    let after = null;
    do {
      const answer = await get(apiPath(this.warehouse, "tables"), { query: { after }, signal: this.signal });
      for (const { namespace, name } of answer.tables) this.addTable({ warehouse: this.warehouse, namespace, name });
      after = answer.next;
    } while (after !== null);
    if (!this.editor.value && this.tables.length) {
      const first = this.tables.find((table) => !table.name.includes("__")) ?? this.tables[0];
      this.editor.set(`SELECT *\nFROM ${qualified(this.known.get(first.name))}\nLIMIT 100`);
    }
    this.edited();
  }

  addTable(table) {
    const name = [...table.namespace, table.name].join(".");
    this.known.set(name, table);
    this.tables.push({ name, parts: [...table.namespace, table.name] });
  }

  async loadColumns(table) {
    const name = [...table.namespace, table.name].join(".");
    if (this.columns.has(name)) return;
    this.columns.set(name, null);
    try {
      const { fields } = await get(tablePath(table), { signal: this.signal });
      this.columns.set(name, fields.filter((field) => field.path.length === 1).map((field) => ({ name: field.path[0], type: field.type })));
      this.editor.refresh();
    } catch {
      // it may not be read: the query says so
    }
  }

  edited() {
    if (!this.editor) return;
    const sql = this.editor.value;
    this.kept.keepDraft(sql);
    this.drawLine();
    const named = tablesOf(sql, this.known);
    for (const table of named) this.loadColumns(table);
    this.drawTravel(named);
  }

  // What does the same as Run, or as CSV.
  drawLine(options = `--limit ${this.limit}`) {
    const sql = this.editor.value.trim();
    this.line.replaceChildren(sql ? command(commandLine("query", [sql], options)) : "");
  }

  // --- running -----------------------------------------------------------------------------------------------------

  async run() {
    const sql = this.editor.value;
    if (!sql.trim()) return;
    this.cancel();
    this.drawLine();
    const own = (this.running = new AbortController());
    this.button.textContent = "Cancel";
    this.status.textContent = "Running…";
    this.result.setAttribute("aria-busy", "true");
    const started = Date.now();
    try {
      await this.prepared;
      if (own.signal.aborted) return;
      this.answer = await this.ask(sql, own.signal);
      this.kept.add(sql, { rows: this.answer.rows.length, seconds: this.answer.seconds, at: started });
      this.status.textContent = summary(this.answer);
      this.download.disabled = !this.answer.columns.length;
      this.choose(this.view === "history" ? "rows" : this.view);
    } catch (error) {
      if (own.signal.aborted || error.name === "AbortError") this.status.textContent = "Cancelled.";
      else this.fail(error);
    } finally {
      if (this.running === own) this.ended();
    }
  }

  // The answer to a query. The server runs a few at a time: others wait here.
  async ask(sql, signal) {
    for (let turn = 1; ; turn++) {
      try {
        return await post(apiPath(this.warehouse, "query"), { sql, limit: this.limit }, { signal });
      } catch (error) {
        if (error.status !== 429 || turn === TURNS) throw error;
        this.status.textContent = "Other queries run. Waiting…";
        await new Promise((resolve) => setTimeout(resolve, 1000));
        signal.throwIfAborted();
      }
    }
  }

  ended() {
    this.running = null;
    this.button.textContent = "Run";
    this.result.removeAttribute("aria-busy");
  }

  cancel() {
    this.running?.abort();
    if (this.running) this.ended();
  }

  fail(error) {
    this.answer = null;
    this.download.disabled = true;
    this.status.textContent = "";
    this.press("rows");
    const { hint } = error.details ?? {};
    if ([400, 422].includes(error.status)) error.title = "The query failed";
    this.result.replaceChildren(h("div", { class: "sql-problem" }, problem(error), hint ? h("p", { class: "muted" }, hint) : null));
    const place = placeOf(error, this.editor.value);
    if (place) this.editor.mark(...place);
  }

  // --- the result --------------------------------------------------------------------------------------------------

  press(view) {
    this.view = view;
    [...this.views.children].forEach((button, at) => button.setAttribute("aria-pressed", String(VIEWS[at][0] === view)));
  }

  choose(view) {
    this.press(view);
    if (view === "history") return this.result.replaceChildren(this.historyView());
    if (!this.answer) return this.result.replaceChildren(h("p", { class: "muted hint" }, "Nothing has run yet."));
    this.result.replaceChildren(DRAW[view](this.answer));
  }

  historyView() {
    const { queries } = this.kept;
    if (!queries.length) return h("p", { class: "muted hint" }, "Queries that you run are kept here, in this browser.");
    const line = (query) =>
      h("li", {}, h("button", { type: "button", onclick: () => { this.editor.set(query.sql); this.editor.field.focus(); } }, h("code", {}, oneLine(query.sql, 300)), h("span", { class: "muted" }, `${plural(query.rows, "row")}, ${seconds(query.seconds)}, ${when(query.at)}`)));
    return h("div", { class: "sql-history" }, h("ol", {}, queries.map(line)), h("button", { type: "button", class: "plain-button", onclick: () => { this.kept.clear(); this.choose("history"); } }, "Forget all"));
  }

  async saveCsv() {
    this.download.disabled = true;
    this.drawLine("--output csv");
    try {
      const answer = await post(apiPath(this.warehouse, "query", "csv"), { sql: this.editor.value }, { signal: this.signal });
      const url = URL.createObjectURL(new Blob([answer.csv], { type: "text/csv" }));
      const link = h("a", { href: url, download: "query.csv" });
      link.click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
      this.status.textContent = answer.more ? `Saved the first ${count(answer.rows)} rows: a file ends at 16 MiB. The command has no such limit.` : `Saved ${plural(answer.rows, "row")}.`;
    } catch (error) {
      if (error.name !== "AbortError") this.fail(error);
    }
    this.download.disabled = false;
  }

  // --- time travel and search --------------------------------------------------------------------------------------

  async drawTravel(named) {
    const key = named.map(qualified).join(" ");
    if (key === this.travelOf) return this.pointTravel?.();
    this.travelOf = key;
    this.time.hidden = true;
    this.pointTravel = null;
    if (!named.length) return;
    const pick = h("select", { class: "field", "aria-label": "Table to travel in" }, named.map((table, at) => h("option", { value: at }, oneLine([...table.namespace, table.name].join("."), 60))));
    const slider = h("input", { type: "range", min: 0, step: 1, "aria-label": "As of" });
    const label = h("output", { class: "muted" });
    const steps = async () => {
      const table = named[Number(pick.value)];
      const data = await get(tablePath(table, "snapshots"), { signal: this.signal }).catch(() => null);
      if (this.travelOf !== key || named[Number(pick.value)] !== table) return;
      const line = data ? mainLine(data) : [];
      this.time.hidden = line.length < 2;
      if (line.length < 2) return;
      slider.max = line.length - 1;
      const tell = () => {
        const step = line[Number(slider.value)];
        const last = Number(slider.value) === line.length - 1;
        label.textContent = last ? "now" : `as of ${when(step.time)}, snapshot ${step.id}`;
        slider.setAttribute("aria-valuetext", label.textContent);
      };
      this.pointTravel = () => {
        const name = [...table.namespace, table.name].join(".");
        const version = chains(this.editor.value).find((chain) => chain.parts.join(".") === name)?.travel?.version;
        const at = line.findIndex((step) => step.id === version);
        slider.value = at < 0 ? line.length - 1 : at;
        tell();
      };
      slider.oninput = tell;
      slider.onchange = () => {
        const last = Number(slider.value) === line.length - 1;
        this.editor.set(travel(this.editor.value, table, last ? null : line[Number(slider.value)].id));
        this.run();
      };
      this.pointTravel();
    };
    pick.addEventListener("change", steps);
    this.time.replaceChildren(h("span", { class: "muted" }, "Time travel"), named.length > 1 ? pick : "", slider, label);
    await steps();
  }

  async toggleSearch(button) {
    const opens = this.searching.hidden;
    button.setAttribute("aria-expanded", String(opens));
    this.searching.hidden = !opens;
    if (!opens) return;
    await this.loaded;
    const columnsOf = async (table) => {
      await this.loadColumns(table);
      return this.columns.get([...table.namespace, table.name].join(".")) ?? [];
    };
    const form = searchForm([...this.known.values()], columnsOf, (sql) => {
      this.editor.set(sql);
      this.run();
    });
    this.searching.replaceChildren(form);
  }
}

// The snapshots of main from the oldest to the current one.
function mainLine(data) {
  const line = [], head = data.refs.find((ref) => ref.name === "main")?.row ?? -1;
  for (let at = head; at >= 0 && line.length < data.id.length; at = data.parent[at]) line.push({ id: data.id[at], time: data.time_ms[at] });
  return line.reverse();
}

function summary(answer) {
  const rows = plural(answer.rows.length, "row");
  const parts = [answer.stopped ? `The first ${rows}` : rows, seconds(answer.seconds)];
  if (answer.stopped === "bytes") parts.push("stopped at 16 MiB");
  if (answer.stopped === "rows") parts.push("there are more");
  if (answer.more_columns) parts.push(`${plural(answer.more_columns, "column")} left out`);
  return parts.join(", ");
}

function seconds(value) {
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(1)} s`;
}

// Where in the text an error is: as the server says, in bytes, or at the first name that the message quotes.
function placeOf(error, sql) {
  const offset = error.details?.offset;
  if (Number.isInteger(offset)) {
    const start = new TextDecoder().decode(new TextEncoder().encode(sql).slice(0, offset)).length;
    return [start, start + (/^[\p{L}\p{N}_]+|^\S/u.exec(sql.slice(start))?.[0].length ?? 0)];
  }
  for (const [, name] of error.message.matchAll(/"([^"]+)"|\b(?:name|Function with name) (\S+)/g)) {
    const at = name ? sql.indexOf(name) : -1;
    if (at >= 0) return [at, at + name.length];
  }
  return null;
}

// The queries of a warehouse that were run in this browser, the newest first, and the one that is being written.
class Kept {
  constructor(warehouse) {
    this.key = `frazil.sql.${warehouse}`;
    try {
      const { queries = [], draft = "" } = JSON.parse(localStorage.getItem(this.key) ?? "{}");
      this.queries = queries.filter((query) => typeof query.sql === "string").slice(0, KEPT);
      this.draft = typeof draft === "string" ? draft : "";
    } catch {
      [this.queries, this.draft] = [[], ""]; // storage is off, or holds something else
    }
  }

  add(sql, facts) {
    if (sql.length > LONGEST) return;
    this.queries = [{ sql, ...facts }, ...this.queries.filter((query) => query.sql !== sql)].slice(0, KEPT);
    this.store();
  }

  keepDraft(sql) {
    this.draft = sql.length > LONGEST ? "" : sql;
    this.store();
  }

  clear() {
    this.queries = [];
    this.store();
  }

  store() {
    try {
      localStorage.setItem(this.key, JSON.stringify({ queries: this.queries, draft: this.draft }));
    } catch {
      // storage is off or full: the history ends with the page
    }
  }
}
