// Rows that broke the contract of a table, by reason, and how they come in after all.

import { facts, openAction } from "./actions.js";
import { get, post, tablePath } from "./api.js";
import { command, commandLine, h, quoted } from "./dom.js";
import { age, count, oneLine, plural, when } from "./format.js";
import { section } from "./parts.js";

export async function quarantineTab(table, body, { signal }) {
  const held = await get(tablePath(table, "quarantine"), { signal });
  if (!held.rows) {
    body.replaceChildren(h("p", { class: "muted" }, held.snapshot_id === null ? "No row of this table was ever quarantined." : "The quarantine is empty."), command(commandLine("quarantine list", [table.label])));
    return;
  }
  body.replaceChildren(
    h("div", { class: "bar-line" },
      h("p", {}, h("strong", {}, `${plural(held.rows, "row")} in quarantine`), h("span", { class: "muted" }, `${held.complete ? "" : " (as far as was read)"}, by ${plural(held.reasons.length + held.more_reasons, "reason")}`)),
      h("button", { type: "button", class: "primary", onclick: () => openReplay(table, held, null) }, "Replay all…"),
      command(commandLine("quarantine show", [table.label])),
    ),
    ...held.reasons.map((group) => drawGroup(table, held, group)),
    held.more_reasons ? h("p", { class: "muted" }, `${plural(held.more_reasons, "further reason")} with fewer rows.`) : "",
  );
}

function drawGroup(table, held, group) {
  const share = h("span", { class: "number" }, `${plural(group.rows, "row")}`);
  const replay = h("button", { type: "button", class: "chip", onclick: () => openReplay(table, held, group.reason) }, "Replay these…");
  const samples = h("div", { class: "samples" }, group.samples.map(drawSample));
  const note = h("p", { class: "muted", role: "status" });
  const next = h("button", { type: "button", class: "plain-button", onclick: () => loadMore() }, "Show more");
  let shown = group.samples.length;
  const say = (more) => {
    note.textContent = group.rows > shown ? `${count(shown)} of ${plural(group.rows, "row")}` : "";
    next.hidden = !more;
  };
  const loadMore = async () => {
    next.disabled = true;
    try {
      const page = await post(tablePath(table, "quarantine/rows"), { head: held.snapshot_id, reason: group.reason, skip: shown });
      samples.append(...page.rows.map(drawSample));
      shown += page.rows.length;
      say(page.more);
    } catch (error) {
      if (error.status !== 401) note.textContent = error.status === 409 ? "The quarantine has changed: load the page again." : error.message;
    }
    next.disabled = false;
  };
  say(group.rows > shown);
  return section(
    h("span", { class: "reason" }, h("bdi", {}, oneLine(group.reason, 400)), share, replay),
    samples,
    h("div", { class: "more-rows" }, note, next),
  );
}

function drawSample(row) {
  return h("details", { class: "sample" },
    h("summary", {}, h("bdi", { class: "mono" }, oneLine(row.raw, 160)), h("span", { class: "muted", title: when(row.at_ms) }, age(row.at_ms))),
    h("dl", { class: "pairs" }, [["Reason", row.reason], ["Part", row.part], ["Position", row.position], ["Id", row.id]].map(([name, value]) => [h("dt", {}, name), h("dd", {}, h("bdi", {}, value))])),
    h("pre", { tabindex: 0 }, pretty(row.raw)),
  );
}

function pretty(raw) {
  try {
    return JSON.stringify(JSON.parse(raw), null, 2);
  } catch {
    return raw; // no JSON: that may be why it is here
  }
}

function openReplay(table, held, reason) {
  const ignore = h("input", { type: "checkbox", id: "replay-extra" });
  const line = (dry) => commandLine("quarantine replay", [table.label], [reason === null ? "" : `--reason ${quoted(reason)}`, ignore.checked ? "--extra-fields ignore" : "", dry ? "--dry-run" : ""].filter(Boolean).join(" "));
  const remaining = (failed) => {
    if (!failed.length) return null;
    const rows = failed.reduce((sum, each) => sum + each.rows, 0);
    const lines = failed.map((each) => h("tr", {}, h("td", { class: "right number" }, count(each.rows)), h("td", {}, h("bdi", {}, oneLine(each.reason, 300)))));
    return h("div", { class: "action-list" }, h("p", {}, `${plural(rows, "row")} ${rows === 1 ? "stays" : "stay"} in quarantine:`), h("table", { class: "plain" }, h("tbody", {}, lines)));
  };
  const action = openAction({
    title: reason === null ? "Replay all rows" : "Replay rows of a reason", verb: "Replay", table, path: "replay",
    form: h("div", {}, reason === null ? null : h("p", {}, h("bdi", {}, oneLine(reason, 400))), h("label", { class: "option", for: "replay-extra" }, ignore, h("span", {}, "Leave out fields that the table does not have"))),
    body: () => ({ head: held.snapshot_id, reason, extra_fields: ignore.checked ? "ignore" : "error" }),
    line: () => line(false),
    check: (plan) => (plan && !plan.replayed ? "No row would come in." : null),
    preview: (plan) => [
      facts([
        `${plural(plan.replayed, "row")} would come in: appended to the table and taken out of the quarantine, in one commit.`,
        "Rows are held against the types of the table and the checks that their reasons name. Checks that lakehouse.py declares now are known to the command line alone.",
      ]),
      remaining(plan.failed),
    ],
    done: (result) => h("div", {}, h("p", {}, result.snapshot_id === null ? "No row came in." : `${plural(result.replayed, "row")} came in, as snapshot ${result.snapshot_id}.`), remaining(result.failed)),
  });
  ignore.addEventListener("change", action.look);
}
