// The plan page: what lakehouse.py declares against what there is, and apply, after a look at the steps.

import { apiPath, get, post } from "./api.js";
import { command, commandLine, h, problem } from "./dom.js";
import { count, oneLine, plural } from "./format.js";
import { bindKeys, drawNav, go, openDialog, show } from "./shell.js";

const SIGNS = { "+": "plus", "-": "minus", "~": "change" };
const MOST_SHOWN = 12; // undeclared tables

export async function page({ warehouse }, signal) {
  drawNav("plan");
  const status = h("p", { class: "status", role: "status" }, "Comparing what is declared with what there is…");
  const action = h("span");
  const body = h("div", { class: "tab-body plan" }, h("p", { class: "muted loading" }, "Loading…"));
  const again = () => dispatchEvent(new HashChangeEvent("hashchange"));
  bindKeys({ r: again, Escape: () => go("tables", warehouse) });
  show("Plan", h("header", { class: "page-head" }, h("h1", {}, "Plan"), status, action), body, h("footer", { class: "page-foot" }, command(commandLine("plan"))));
  try {
    const plan = await get(apiPath(warehouse, "plan"), { signal });
    status.textContent = summary(plan);
    if (plan.steps?.length) action.replaceWith(h("button", { type: "button", class: "primary", onclick: () => confirm(warehouse, plan, again) }, "Apply…"));
    body.replaceChildren(...content(plan));
  } catch (error) {
    status.textContent = "";
    if (error.name !== "AbortError" && error.status !== 401) body.replaceChildren(problem(error));
  }
}

function summary({ project, steps, tables }) {
  if (!steps) return project.name ? `project ${oneLine(project.name, 60)}` : "";
  return `${steps.length ? plural(steps.length, "step") : "No changes"}, ${plural(tables.length, "table")} declared · project ${oneLine(project.name, 60)}`;
}

function content(plan) {
  const { project, error } = plan;
  if (project.status === "none") return [h("div", { class: "nothing" }, h("p", {}, "There is no lakehouse.py where this server runs."), h("p", { class: "muted" }, "Start a project, and serve from its folder:"), command("frazil init lakehouse"))];
  if (project.status === "failed" || error) return [h("div", { class: "notice bad", role: "alert" }, h("strong", {}, project.status === "failed" ? "The project cannot be loaded" : "There is no plan"), h("pre", { tabindex: 0 }, project.error ?? error))];
  return [stepsPart(plan), driftPart(plan), ownersPart(plan), unknownPart(plan), modelsPart(plan), undeclaredPart(plan), plan.note ? h("p", { class: "muted" }, plan.note) : null].filter(Boolean);
}

function section(title, about, ...parts) {
  return h("section", { class: "block" }, h("h2", {}, title), about ? h("p", { class: "muted about" }, about) : null, ...parts);
}

function stepsPart({ steps, tables }) {
  if (!steps.length) return section("Steps", null, h("p", { class: "lead" }, h("span", { class: "health fine" }, h("i"), tables.length === 1 ? "The declared table is as declared." : `All ${count(tables.length)} declared tables are as declared.`)));
  return section("Steps", "What apply would do, one commit per step.", stepList(steps));
}

const WORDS = { "create-namespace": "new namespace", "create-table": "new table", "alter-table": "change of", "change-grants": "grants on" };

function stepList(steps) {
  return h("ol", { class: "plan-steps" }, steps.map((step) => h("li", { class: step.removes ? "removes" : null }, h("div", { class: "when" }, h("span", { class: "muted" }, WORDS[step.step] ?? step.step), h("strong", {}, h("bdi", {}, oneLine(step.name, 200))), step.removes ? h("span", { class: "ref" }, "removes") : null), changeList(step.changes))));
}

function changeList(changes) {
  return h("ul", {}, changes.map((change) => h("li", {}, h("span", { class: `sign ${SIGNS[change.sign] ?? "change"}`, "aria-label": { "+": "adds", "-": "removes" }[change.sign] ?? "changes", role: "img" }, change.sign), h("bdi", {}, oneLine(change.text, 600)))));
}

function driftPart({ drift }) {
  const entries = Object.entries(drift);
  if (!entries.length) return null;
  return section("Changed by hand", "Since the last apply, by someone or something else.", h("ol", { class: "plan-steps" }, entries.map(([name, changes]) => h("li", {}, h("div", { class: "when" }, h("strong", {}, h("bdi", {}, oneLine(name, 200)))), changeList(changes)))), command(commandLine("drift")));
}

function ownersPart({ others }) {
  const entries = Object.entries(others);
  if (!entries.length) return null;
  return section("Tables of other projects", "Apply refuses to change them. To take them over, use the command line.", h("ul", { class: "facts-list" }, entries.map(([table, owner]) => h("li", {}, h("bdi", {}, oneLine(`${table} belongs to ${owner}`, 300))))), command(commandLine("apply", [], "--adopt")));
}

function unknownPart({ unknown }) {
  if (!unknown.length) return null;
  return section("Left out", "Only Spark knows the columns of these models. The command line asks it once, and remembers them.", names(unknown), command(commandLine("plan")));
}

function modelsPart({ models }) {
  if (!models.length) return null;
  return section("Models", null, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Models" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["Model", "Mode", "Why"].map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, models.map((model) => h("tr", {}, h("th", { scope: "row" }, h("bdi", {}, oneLine(model.name, 120))), h("td", {}, model.mode), h("td", { class: "muted" }, oneLine(model.mode_reason, 200))))))));
}

function undeclaredPart({ undeclared }) {
  if (!undeclared.length) return null;
  return section("Not declared, left alone", null, names(undeclared.slice(0, MOST_SHOWN)), undeclared.length > MOST_SHOWN ? h("p", { class: "muted" }, `and ${plural(undeclared.length - MOST_SHOWN, "more table")}`) : null);
}

function names(list) {
  return h("p", { class: "refs" }, list.map((name) => h("span", { class: "ref" }, h("bdi", {}, oneLine(name, 100)))));
}

// --- apply -----------------------------------------------------------------------------------------------------------

function confirm(warehouse, plan, again) {
  const removes = plan.steps.some((step) => step.removes);
  const label = `Apply ${plural(plan.steps.length, "step")}`;
  const box = h("input", { type: "checkbox", id: "removes" });
  const yes = h("button", { type: "submit", class: removes ? "primary danger" : "primary", disabled: removes }, label);
  const no = h("button", { type: "button", class: "plain-button", onclick: () => dialog.close() }, "Cancel");
  const said = h("p", { class: "muted", role: "status" });
  box.addEventListener("change", () => (yes.disabled = !box.checked));
  const form = h(
    "form",
    { class: "apply-form" },
    h("h2", {}, "Apply the plan"),
    h("div", { class: "apply-steps", tabindex: 0, role: "region", "aria-label": "Steps" }, stepList(plan.steps)),
    removes ? h("label", { for: "removes", class: "check" }, box, " I have read what is removed") : null,
    h("p", { class: "muted" }, "The same on the command line:"),
    command(commandLine("apply", [], removes ? "--yes" : "")),
    h("div", { class: "apply-buttons" }, said, no, yes),
  );
  const dialog = openDialog("Apply the plan", "apply", form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (yes.disabled) return;
    yes.disabled = no.disabled = true;
    said.textContent = "Applying…";
    try {
      const result = await post(apiPath(warehouse, "plan"), { digest: plan.digest });
      finish(form, dialog, result.error ? [h("p", { role: "alert" }, `${count(result.done.length)} of ${plural(result.steps, "step")} done, then: `, h("bdi", {}, result.error)), stepList(result.done)] : [h("p", { role: "status" }, `${plural(result.done.length, "step")} done.`), stepList(result.done)]);
    } catch (error) {
      if (error.status === 401) return dialog.close();
      finish(form, dialog, [h("div", { class: "notice bad", role: "alert" }, h("strong", {}, error.status === 409 ? "The plan has changed" : error.title), h("p", {}, error.message))]);
    }
    dialog.addEventListener("close", again);
  });
}

function finish(form, dialog, parts) {
  const close = h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close");
  form.replaceChildren(h("h2", {}, "Apply the plan"), h("div", { class: "apply-steps", tabindex: 0, role: "region", "aria-label": "Result" }, parts), h("div", { class: "apply-buttons" }, close));
  close.focus();
}
