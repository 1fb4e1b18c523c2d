// What can be done with a snapshot: name it with a tag or branch, go back to it; and drop what names it.

import { facts, openAction } from "./actions.js";
import { command, commandLine, h, quoted } from "./dom.js";
import { age, count, oneLine, plural, when } from "./format.js";

// Buttons for a snapshot. `heads` has the branches with the snapshots at which the page has seen them.
export function snapshotActions(table, { id, refs }, heads) {
  const button = (label, open) => h("button", { type: "button", class: "chip", onclick: open }, label);
  const behind = heads.filter((head) => head.id !== id);
  return h("div", { class: "chips actions" },
    button("Create tag…", () => createRef(table, "tag", id)),
    button("Create branch…", () => createRef(table, "branch", id)),
    behind.length ? button("Roll back to here…", () => rollBack(table, id, behind)) : null,
    refs.filter((ref) => ref.name !== "main").map((ref) => button(h("span", {}, `Drop ${ref.type} `, h("bdi", {}, oneLine(ref.name, 30)), "…"), () => dropRef(table, ref, id))),
  );
}

function createRef(table, kind, id) {
  const name = h("input", { type: "text", id: "ref-name", autocomplete: "off", spellcheck: "false", maxlength: 200, autofocus: true });
  const about = kind === "tag" ? "A tag is a name for this snapshot; expiry then keeps it." : "Rows that are written to a branch are not seen on main.";
  const action = openAction({
    title: `New ${kind}`, verb: `Create ${kind}`, table, path: "refs",
    form: h("div", { class: "action-fields" }, h("label", { for: "ref-name" }, "Name"), name, h("p", { class: "muted" }, `${about} It is created at snapshot ${id}.`)),
    body: () => ({ kind, name: name.value.trim(), snapshot: id }),
    line: () => commandLine(`${kind} create`, [table.label, name.value.trim() || "NAME"], `--at ${id}`),
    check: () => (name.value.trim() ? null : "A name is missing."),
    done: (result) => h("p", {}, `The ${result.kind} `, h("bdi", {}, oneLine(result.name, 200)), ` is at snapshot ${result.snapshot_id}.`),
  });
  name.addEventListener("input", action.judge);
}

function dropRef(table, ref, id) {
  openAction({
    title: `Drop ${ref.type}`, verb: `Drop ${ref.type}`, danger: true, table, path: "refs/drop",
    body: () => ({ kind: ref.type, name: ref.name, snapshot: id }),
    line: () => commandLine(`${ref.type} drop`, [table.label, ref.name]),
    preview: (plan) => [
      facts([
        h("span", {}, `The ${plan.kind} `, h("bdi", {}, oneLine(plan.name, 200)), `, at snapshot ${plan.snapshot_id}, goes. No file is deleted.`),
        plan.unreachable ? `No other branch or tag holds ${plural(plan.unreachable, "snapshot")} of it: expiry will remove them.` : "All of its snapshots are held by other branches or tags.",
        ...plan.parts.map((part) => h("span", {}, "The progress of sink part ", h("bdi", {}, oneLine(part, 80)), " on it goes, too.")),
      ]),
    ],
    done: (result) => h("div", {}, h("p", {}, `The ${result.kind} `, h("bdi", {}, oneLine(result.name, 200)), " is dropped. To have it again:"), command(commandLine(`${result.kind} create`, [table.label, result.name], `--at ${result.snapshot_id}`))),
  });
}

// --- rollback --------------------------------------------------------------------------------------------------------

function rollBack(table, id, heads) {
  let head = heads.find((each) => each.name === "main") ?? heads[0];
  let withProgress = null;
  const select = h("select", { id: "rollback-ref", class: "field" }, heads.map((each) => h("option", { value: each.name, selected: each === head }, oneLine(each.name, 80))));
  const action = openAction({
    title: "Roll back", verb: "Roll back", danger: true, table, path: "rollback",
    form: heads.length > 1 ? h("div", { class: "action-fields" }, h("label", { for: "rollback-ref" }, "Branch"), select) : null,
    body: () => ({ ref: head.name, head: head.id, snapshot: id, with_progress: withProgress }),
    line: () => commandLine("rollback", [table.label], [`--at ${id}`, head.name === "main" ? "" : `--ref ${quoted(head.name)}`, withProgress === null ? "" : withProgress ? "--with-progress" : "--keep-progress"].filter(Boolean).join(" ")),
    check: (plan) => (plan?.progress && withProgress === null ? "Say what becomes of their progress." : null),
    preview: (plan, judge) => [drawPlan(plan), plan.progress ? drawProgress(plan.progress, (chosen) => { withProgress = chosen; judge(); }) : null],
    done: (result) => h("div", {}, h("p", {}, h("bdi", {}, oneLine(head.name, 80)), ` is back, as snapshot ${result.snapshot_id}. To undo this:`), command(commandLine("rollback", [table.label], [`--at ${result.before}`, head.name === "main" ? "" : `--ref ${quoted(head.name)}`].filter(Boolean).join(" ")))),
  });
  select.addEventListener("change", () => { head = heads.find((each) => each.name === select.value); withProgress = null; action.look(); });
}

function drawPlan(plan) {
  const sums = (side) => `${plural(side.files, "data file")} (${plural(side.rows, "row")})`;
  return h("div", { class: "action-plan" },
    facts([
      h("span", {}, h("bdi", {}, oneLine(plan.ref, 80)), ` goes back from snapshot ${plan.head} to ${plan.target} of ${when(plan.target_ms)}.`),
      `Out: ${sums(plan.removed)}. Back: ${sums(plan.added)}. It ends in a new snapshot; no file is deleted.`,
      plan.schema.length ? h("span", {}, "The schema stays as it is now; changed since then: ", h("bdi", {}, oneLine(plan.schema.join("; "), 400)), ".") : null,
    ]),
    entries("undone", plan.undone),
    entries("brought back", plan.restored),
  );
}

function entries(what, { count: number, entries: shown }) {
  if (!number) return null;
  const line = (entry) => h("tr", {}, h("td", { class: "mono" }, entry.id), h("td", {}, entry.operation), h("td", { class: "right" }, `+${count(entry.added_rows)} −${count(entry.removed_rows)}`), h("td", { class: "muted", title: when(entry.time_ms) }, age(entry.time_ms)));
  return h("div", { class: "action-list" }, h("p", {}, `${plural(number, "snapshot")} ${what}:`), h("table", { class: "plain" }, h("tbody", {}, shown.map(line))), number > shown.length ? h("p", { class: "muted" }, `and ${count(number - shown.length)} more`) : null);
}

function drawProgress(progress, onChoose) {
  const offsets = (values) => oneLine(Object.entries(values).slice(0, 4).map(([name, value]) => `${name}=${value}`).join(", ") || "the beginning", 120);
  const companion = (change, since, then) => change && h("span", {}, h("bdi", {}, oneLine(change.table, 80)), `: ${[change.forgets ? `${count(change.forgets)} ${since}` : "", change.remembers ? `${count(change.remembers)} ${then}` : ""].filter(Boolean).join(", ")}`);
  const back = [progress.repeats ? "what was undone is read and written again" : "", progress.resumes ? "what is brought back counts as written" : ""].filter(Boolean).join(", ") || "no row is read again";
  const stays = [progress.repeats ? "what was undone stays out for good" : "", progress.resumes ? "what is brought back is written a second time" : ""].filter(Boolean).join(", and ") || "no row is read again";
  const option = (value, label, about, disabled) => h("label", { class: "option" }, h("input", { type: "radio", name: "progress", disabled, onchange: () => onChoose(value) }), h("span", {}, h("strong", {}, label), h("span", { class: "muted" }, ` ${about}`)));
  return h("fieldset", {},
    h("legend", {}, "Sinks or pipelines have written since, and remember how far they have come"),
    facts([
      ...progress.parts.map((part) => h("span", {}, "Sink part ", h("bdi", {}, oneLine(part.part, 80)), `: now ${offsets(part.now)}, then ${offsets(part.then)}`)),
      companion(progress.ledger, "files loaded since", "files loaded then"),
      companion(progress.quarantine, "rows quarantined since", "rows quarantined then"),
    ]),
    option(true, "They go back, too:", `${back}, and running writers are fenced.`, !progress.known),
    option(false, "They stay where they are:", `${stays}.`),
    progress.known ? null : h("p", { class: "muted" }, "How far they were then is no longer known, for it has expired."),
  );
}
