// Upkeep: the debt of every table step by step, what would be done about it, and having a worker do it.

import { apiPath, get, post, tablePath } from "./api.js";
import { command, commandLine, copyButton, h, icon, problem, s } from "./dom.js";
import { age, bytes, count, oneLine, plural, when } from "./format.js";
import { Grid } from "./grid.js";
import { bindKeys, confirmed, drawNav, go, hash, show } from "./shell.js";
import { health } from "./tables.js";

const STEPS = [
  ["compact", "Compact", "Rewrites small files, and files with many deletes"],
  ["deletes", "Deletes", "Drops and merges delete files"],
  ["manifests", "Manifests", "Merges small manifests"],
  ["indexes", "Indexes", "Refreshes vector indexes"],
  ["expire", "Expire", "Removes old snapshots, and the files that only they lead to"],
];
const SCORED = ["compact", "deletes", "manifests", "expire"];
const OUTCOMES = { done: "Done", nothing: "Nothing to do", yielded: "Gave way to writers", stopped: "Stopped", failed: "Failed" };
const LOOK_MS = 1500;
const LIVE = new Set(["queued", "working"]);

function meter(score) {
  if (score === undefined) return h("span", { class: "muted" }, "–");
  const bar = s("svg", { class: "meter", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { width: 100, height: 6, rx: 3 }), s("rect", { width: 100 * Math.min(1, score), height: 6, rx: 3, class: score >= 1 ? "due" : "on" }));
  return h("div", { class: "score", title: `Score ${score.toFixed(2)}: from 1 on, a run is worth it` }, bar, h("span", {}, score.toFixed(1)));
}

function lastRun(row) {
  if (LIVE.has(row.state)) return h("span", { class: "state-live" }, row.state === "queued" ? "Queued" : "Running");
  return row.last_run ? h("span", { class: row.last_run.outcome === "failed" ? "bad" : "muted", title: when(row.last_run.at_ms) }, `${OUTCOMES[row.last_run.outcome] ?? row.last_run.outcome}, ${age(row.last_run.at_ms)}`) : h("span", { class: "muted" }, "–");
}

const COLUMNS = [
  { key: "label", title: "Table", width: "minmax(140px, 1fr)", cell: (row) => h("div", { class: "name" }, h("bdi", { class: "muted" }, `${row.namespace.join(".")}.`), h("bdi", { title: row.label }, oneLine(row.name))) },
  { key: "health", title: "Health", width: "74px", least: 620, cell: (row) => h("div", { title: row.health.reasons.join(", ") }, health(row.health.level, false)) },
  ...STEPS.filter(([step]) => SCORED.includes(step)).map(([step, title, about]) => ({ key: step, title, about, width: "72px", least: step === "compact" ? 400 : 560, cell: (row) => meter(row.steps?.[step]) })),
  { key: "last", title: "Last run", width: "minmax(80px, 0.7fr)", cell: lastRun },
];

export async function page({ warehouse, query }, signal) {
  drawNav("upkeep");
  const view = { q: query.get("q") ?? "", all: query.has("all"), table: query.get("table") };
  const status = h("p", { class: "status", role: "status" }, "Loading…");
  const search = h("input", { type: "search", "aria-label": "Search tables", placeholder: "Search tables", autocomplete: "off", spellcheck: "false" });
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Filter" });
  const side = h("aside", { class: "side-panel", "aria-label": "Upkeep of the table" });
  let rows = [], chosen = null, leavePanel = new AbortController();
  const grid = new Grid({ label: "Upkeep", columns: COLUMNS, onOpen: choose, empty: () => (rows.length ? "No table needs upkeep." : "Loading…") });

  function choose(row) {
    chosen = row;
    view.table = row.label;
    remember(warehouse, view);
    leavePanel.abort();
    leavePanel = new AbortController();
    if (row.health.level === "hidden") return side.replaceChildren(h("p", { class: "muted" }, "You may not read this table."));
    panel(row, side, AbortSignal.any?.([signal, leavePanel.signal]) ?? leavePanel.signal, refresh);
  }

  function draw() {
    const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = rows.filter((row) => words.every((word) => row.label.toLowerCase().includes(word)));
    const due = fits.filter((row) => ["due", "overdue", "error"].includes(row.health.level) || LIVE.has(row.state));
    const seen = view.all || view.q ? fits : due;
    const chip = (label, all, number) => h("button", { type: "button", class: "chip", "aria-pressed": String(view.all === all), onclick: () => { view.all = all; draw(); } }, label, h("span", { class: "number" }, count(number)));
    chips.replaceChildren(chip("Needs upkeep", false, due.length), chip("All", true, fits.length));
    grid.setRows([...seen].sort((a, b) => (b.health.score ?? -1) - (a.health.score ?? -1)));
    remember(warehouse, view);
  }

  async function refresh() {
    const loaded = [];
    for (let after = ""; after !== null; ) {
      const page = await get(apiPath(warehouse, "upkeep"), { query: { after }, signal });
      for (const row of page.tables) loaded.push(Object.assign(row, { warehouse, label: [...row.namespace, row.name].join(".") }));
      after = page.next;
      if (after !== null) status.textContent = `Loading ${count(loaded.length)} of ${count(page.total)}…`;
    }
    const before = chosen?.label;
    rows = loaded;
    draw();
    status.textContent = plural(loaded.length, "table");
    const again = before ? grid.rows.findIndex((row) => row.label === before) : -1;
    if (again >= 0) grid.move(again);
  }

  search.value = view.q;
  search.addEventListener("input", () => { view.q = search.value; draw(); });
  bindKeys({ "/": () => search.focus(), r: () => refresh(), j: () => grid.step(1), k: () => grid.step(-1), ArrowDown: () => grid.step(1), Escape: () => (document.activeElement === search ? grid.view.focus() : go("tables", warehouse)) });
  signal.addEventListener("abort", () => leavePanel.abort());
  show(
    "Upkeep",
    h("header", { class: "page-head" }, h("h1", {}, "Upkeep"), status, h("div", { class: "search" }, icon("search"), search, h("kbd", { "aria-hidden": "true" }, "/"))),
    chips,
    h("div", { class: "split lined wide-side" }, grid.element, side),
    h("footer", { class: "page-foot" }, command("frazil upkeep status")),
  );
  side.replaceChildren(h("p", { class: "muted" }, "Choose a table to see what upkeep would do."));
  try {
    await refresh();
    const first = rows.find((row) => row.label === view.table) ?? grid.rows[0];
    if (first) {
      if (!grid.rows.includes(first)) { view.all = true; draw(); }
      grid.move(grid.rows.indexOf(first));
      choose(first);
    }
  } catch (error) {
    if (error.name !== "AbortError" && error.status !== 401) show("Upkeep", problem(error));
  }
}

// --- one table -------------------------------------------------------------------------------------------------------

async function panel(table, side, signal, onDone) {
  const off = table.health.level === "off";
  const ticked = new Set(STEPS.map(([step]) => step).filter((step) => step === "indexes" ? (table.steps?.compact ?? 0) >= 0.5 : (table.steps?.[step] ?? 0) >= 0.5));
  let state = null, plans = null, busy = "", failure = null, saw = false;
  const draw = () => {
    if (signal.aborted) return;
    const had = side.contains(document.activeElement) ? document.activeElement.dataset.keep : null;
    side.replaceChildren(...content());
    if (had) side.querySelector(`[data-keep="${had}"]`)?.focus();
  };
  const guarded = async (what, work) => {
    busy = what;
    failure = null;
    draw();
    try {
      await work();
    } catch (error) {
      if (error.name !== "AbortError") failure = error;
    }
    busy = "";
    draw();
  };
  const preview = () => guarded("plan", async () => {
    plans = null;
    const answer = await post(`${tablePath(table, "upkeep")}/plan`, { steps: STEPS.map(([step]) => step) }, { signal });
    plans = new Map(answer.steps.map((plan) => [plan.step, plan]));
    for (const [step] of STEPS) {
      if (plans.get(step)?.does) ticked.add(step);
      else ticked.delete(step);
    }
  });
  const run = async () => {
    const steps = STEPS.map(([step]) => step).filter((step) => ticked.has(step));
    if (steps.includes("expire")) {
      const lines = plans.get("expire").lines.map((line) => h("li", {}, h("bdi", {}, line)));
      const text = [h("p", {}, "Expired snapshots cannot be read or rolled back to any more, and their files are removed:"), h("ul", { class: "plan-lines" }, lines)];
      if (!(await confirmed(`Expire snapshots of ${oneLine(table.label, 80)}?`, text, "Expire"))) return;
    }
    await guarded("run", async () => {
      state = await post(tablePath(table, "upkeep"), { steps }, { signal });
      plans = null;
      saw = true;
    });
    if (!failure) {
      onDone().catch(() => {});
      watch();
    }
  };
  async function watch() {
    try {
      while (!signal.aborted && state && LIVE.has(state.state)) {
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
        if (signal.aborted) return;
        state = await get(tablePath(table, "upkeep"), { signal });
        saw = true;
        draw();
      }
      if (saw && !signal.aborted) await onDone();
    } catch (error) {
      if (error.name === "AbortError") return;
      failure = error;
      draw();
    }
  }

  const stepLine = ([step, title, about]) => {
    const plan = plans?.get(step), score = table.steps?.[step];
    const box = h("input", { type: "checkbox", id: `step-${step}`, "data-keep": `step-${step}`, checked: ticked.has(step), disabled: !plans || !plan?.does, onchange: (event) => { if (event.target.checked) ticked.add(step); else ticked.delete(step); draw(); } });
    const said = plan ? (plan.lines.length ? plan.lines : ["Nothing to do"]) : [about];
    return h("li", {}, plans ? box : null, h("div", {}, h("label", { for: plans ? `step-${step}` : null }, title), h("ul", { class: "plan-lines" }, said.map((line) => h("li", {}, h("bdi", {}, line))))), plans || score === undefined ? null : meter(score));
  };
  const saves = () => {
    const chosen = [...plans.values()].filter((plan) => ticked.has(plan.step));
    const sum = (key, test) => chosen.filter(test).reduce((total, plan) => total + plan[key], 0);
    const parts = [[sum("files", (plan) => !plan.removes), "file", "that readers open"], [sum("files", (plan) => plan.removes), "file", `on disk (${bytes(sum("bytes", () => true))})`], [sum("snapshots", () => true), "snapshot", ""]];
    const saved = parts.filter(([number]) => number).map(([number, noun, rest]) => `${plural(number, noun)} ${rest}`.trim());
    return saved.length ? `Saves ${saved.join(", ")}.` : "Nothing to do now.";
  };
  const content = () => {
    const live = state && LIVE.has(state.state), may = state?.allowed && !off;
    const buttons = h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", class: plans ? "plain-button" : "primary", "data-keep": "preview", disabled: !may || busy !== "", onclick: preview }, busy === "plan" ? "Planning…" : plans ? "Preview again" : "Preview"),
      plans ? h("button", { type: "button", class: "primary", "data-keep": "run", disabled: !may || busy !== "" || !ticked.size, onclick: run }, busy === "run" ? "Asking…" : "Run") : null,
    );
    const steps = STEPS.map(([step]) => step).filter((step) => ticked.has(step)).join(",");
    const only = plans && steps ? ` --only ${steps}` : "";
    return [
      h("h2", { class: "panel-title" }, h("a", { href: hash("table", table.warehouse, table.namespace.join("\x1f"), table.name) }, h("bdi", {}, oneLine(table.label, 120)))),
      h("p", { class: "lead" }, health(table.health.level, false), h("span", { class: "muted" }, table.health.reasons.join(", ") || "Nothing to do.")),
      off ? h("p", {}, "Upkeep is off for this table by its property upkeep.enabled.") : null,
      h("h2", {}, plans ? "What would be done" : "Steps"),
      h("ul", { class: "plan-steps" }, STEPS.map(stepLine)),
      plans ? h("p", { role: "status" }, saves()) : null,
      failure ? h("p", { class: "bad", role: "alert" }, failure.message) : null,
      buttons,
      state && !state.allowed ? h("p", { class: "muted" }, "You need the privilege maintain on this table.") : null,
      h("h2", {}, "State"),
      h("div", { role: "status", class: live ? "state-live" : null }, ...(state ? told(state) : ["Loading…"])),
      h("h2", {}, "On the command line"),
      command(commandLine("maintain", [table.label], `${only ? `${only.trim()} ` : ""}--dry-run`)),
      plans && only ? command(commandLine("maintain", [table.label], `${only.trim()} --yes`)) : null,
      h("p", { class: "muted" }, off ? "To turn it on, in lakehouse.py, then frazil apply:" : "To have workers leave this table alone, in lakehouse.py, then frazil apply:"),
      setting(`upkeep=Upkeep(enabled=${off ? "True" : "False"})`),
    ].filter(Boolean);
  };
  draw();
  try {
    state = await get(tablePath(table, "upkeep"), { signal });
    draw();
    watch();
  } catch (error) {
    if (error.name !== "AbortError" && error.status !== 401) { failure = error; draw(); }
  }
}

// A line of lakehouse.py, to be copied.
function setting(text) {
  const line = h("code", {}, text);
  return h("div", { class: "command setting" }, line, copyButton(line, `Copy: ${text}`));
}

// What upkeep does with a table now, and what it did last.
function told(state) {
  const lines = [];
  const { request, running, last_run: run } = state;
  if (running) lines.push(h("p", {}, `Running since ${when(running.since_ms)}${running.owner ? `, by ${running.owner}` : ""}.`));
  if (request) {
    const waits = running ? "" : state.workers ? ` ${plural(state.workers, "worker")} will take it in turn.` : " A worker starts for it. If none does: frazil upkeep --once";
    lines.push(h("p", {}, `${running ? "Asked for" : "Queued"} ${age(request.at_ms, state.now_ms)}${request.by ? ` by ${request.by}` : ""}: ${request.steps.join(", ")}.${waits}`));
  }
  if (run && !running) {
    const saved = [run.saved_files ? `${plural(run.saved_files, "file")} fewer to open` : "", run.removed_files ? `${plural(run.removed_files, "file")} removed (${bytes(run.removed_bytes)})` : "", run.expired_snapshots ? `${plural(run.expired_snapshots, "snapshot")} expired` : ""].filter(Boolean);
    lines.push(h("p", {}, h("strong", { class: run.outcome === "failed" ? "bad" : null }, OUTCOMES[run.outcome] ?? run.outcome), ` ${age(run.at_ms, state.now_ms)}, in ${run.seconds.toFixed(1)} s${saved.length ? `: ${saved.join(", ")}` : ""}.`));
    const said = state.details ? [run.message, ...run.did, ...run.problems].filter(Boolean) : run.problems ? [`${plural(run.problems, "problem")}: those who maintain the warehouse see them`] : [];
    if (said.length) lines.push(h("ul", { class: "plan-lines" }, said.map((line) => h("li", {}, h("bdi", {}, line)))));
  }
  return lines.length ? lines : [h("p", { class: "muted" }, "Upkeep has not run on this table.")];
}

function remember(warehouse, view) {
  const query = new URLSearchParams();
  if (view.q) query.set("q", view.q);
  if (view.all) query.set("all", "");
  if (view.table) query.set("table", view.table);
  const text = query.toString();
  const address = `#/upkeep/${encodeURIComponent(warehouse)}${text ? `?${text}` : ""}`;
  if (location.hash !== address) history.replaceState(null, "", address);
}
