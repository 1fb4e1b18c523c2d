// Keys, roles and their members, and who may do what. A new key is shown once, in a dialog, and kept nowhere.

import { get, post } from "./api.js";
import { command, copyButton, h, problem, quoted, serverLine, warehouseOption } from "./dom.js";
import { age, count, oneLine, plural, when } from "./format.js";
import { Grid } from "./grid.js";
import { bindKeys, confirmed, drawNav, go, hash, openDialog, show } from "./shell.js";
import { whoCan } from "./whocan.js";

const TABS = [["keys", "Keys"], ["roles", "Roles"], ["who-can", "Who can"]];
const API = "/console/api/access";
const LIFETIMES = [["", "never", ""], ["43200", "in 12 hours", "12h"], ["2592000", "in 30 days", "30d"], ["7776000", "in 90 days", "90d"], ["31536000", "in a year", "365d"]];
const KEEPS = [["86400", "24 hours", "24h"], ["3600", "an hour", "1h"], ["604800", "7 days", "7d"], ["0", "no time", "0h"]];

export async function page({ warehouse, parts, query }, signal) {
  drawNav("access");
  const at = Math.max(0, TABS.findIndex(([key]) => key === parts[0]));
  const open = (tab) => go("access", warehouse, tab);
  const status = h("p", { class: "status", role: "status" }, "Loading…");
  const actions = h("div", { class: "page-actions" });
  const note = h("div");
  const body = h("div", { class: "tab-body" }, h("p", { class: "muted loading" }, "Loading…"));
  const foot = h("footer", { class: "page-foot" });
  const keys = { Escape: () => go("tables", warehouse), "[": () => open(TABS[(at + TABS.length - 1) % TABS.length][0]), "]": () => open(TABS[(at + 1) % TABS.length][0]) };
  bindKeys(keys);
  show(
    "Access",
    h("header", { class: "page-head" }, h("h1", {}, "Access"), status, actions),
    note,
    h("nav", { class: "tabs", "aria-label": "Access" }, TABS.map(([key, label], index) => h("a", { href: hash("access", warehouse, key), "aria-current": index === at ? "page" : null }, label))),
    body,
    foot,
  );
  try {
    const data = await get(API, { signal });
    note.replaceChildren(data.authentication ? "" : h("div", { class: "off-note" }, h("p", {}, "Authentication is off: every request is carried out. Keys are made on the command line, then turn it on:"), command("frazil token create NAME --role admin"), command("frazil serve --authentication keys")));
    const part = { data, body, status, actions, foot, keys, signal, query, warehouse };
    [keysTab, rolesTab, whoCan][at](part);
  } catch (error) {
    if (error.name !== "AbortError" && error.status !== 401) body.replaceChildren(problem(error));
  }
}

// A list with a panel; `reload` asks the server again and shows the same row.
function list(part, { label, columns, rows, keyOf, panel, empty }) {
  const side = h("aside", { class: "side-panel", "aria-label": `${label}: the chosen one` });
  const grid = new Grid({ label, columns, onOpen: (row) => side.replaceChildren(...panel(row).filter(Boolean)), empty: () => empty });
  part.body.classList.add("full");
  part.body.replaceChildren(h("div", { class: "split" }, grid.element, side));
  bindKeys({ ...part.keys, r: () => dispatchEvent(new HashChangeEvent("hashchange")), j: () => grid.step(1), k: () => grid.step(-1), ArrowDown: () => grid.step(1) });
  const fill = (data, key) => {
    Object.assign(part.data, data);
    const all = rows(part.data);
    grid.setRows(all, { keep: false });
    const row = all.find((each) => keyOf(each) === key) ?? all[0];
    if (!row) return side.replaceChildren();
    grid.move(all.indexOf(row));
    side.replaceChildren(...panel(row).filter(Boolean));
  };
  fill({}, null);
  return { reload: async (key) => fill(await get(API, { signal: part.signal }), key) };
}

function field(label, input, about) {
  return h("div", { class: "form-field" }, h("label", {}, h("span", {}, label), input), about ? h("small", { class: "muted" }, about) : null);
}

function chooser(options, label) {
  return h("select", { class: "field", "aria-label": label }, options.map(([value, text]) => h("option", { value }, text)));
}

// A command that says what is typed or chosen.
function follow(input, line) {
  const place = h("div", {}, command(line()));
  input.addEventListener("input", () => place.replaceChildren(command(line())));
  return place;
}

function textField(attributes = {}) {
  return h("input", { type: "text", class: "field", autocomplete: "off", spellcheck: "false", ...attributes });
}

// A form in a dialog; `send` makes the request and says what comes next, or the form shows what is wrong.
function formDialog(title, fields, action, send) {
  const fault = h("p", { class: "bad", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, action);
  const form = h("form", { class: "form" }, h("h2", {}, title), fields, fault, h("div", { class: "buttons" }, h("button", { type: "button", class: "plain-button", onclick: () => dialog.close() }, "Cancel"), button));
  const dialog = openDialog(title, "sheet", form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await send(() => dialog.close());
    } catch (error) {
      fault.textContent = error.message;
      button.disabled = false;
    }
  });
  form.querySelector("input, select")?.focus();
}

// The text of a new key: in this dialog alone, until it is closed.
function showSecret(key) {
  const line = h("code", { class: "secret" }, key.token);
  const dialog = openDialog("New key", "sheet", h("h2", {}, "New key of ", h("bdi", {}, key.principal)), h("p", {}, "Copy it now: it is shown only once, and kept nowhere."), h("div", { class: "secret-line" }, line, copyButton(line, "Copy the key")), h("p", { class: "muted" }, key.expires_ms ? `It ends ${when(key.expires_ms)}.` : "It never ends by itself."), h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Done")));
  dialog.addEventListener("close", () => { line.textContent = ""; });
}

function failed(error) {
  if (error.name === "AbortError" || error.status === 401) return;
  openDialog("Not done", "sheet", h("h2", {}, "Not done"), h("p", {}, error.message));
}

// --- keys ------------------------------------------------------------------------------------------------------------

const KEY_COLUMNS = [
  { key: "id", title: "Key", width: "170px", cell: (row) => h("span", { class: "mono" }, `frz_${row.id}`) },
  { key: "principal", title: "Owner", width: "minmax(110px, 1fr)", cell: (row) => h("bdi", {}, oneLine(row.principal, 80)) },
  { key: "state", title: "State", width: "64px", cell: (row) => h("span", { class: `verdict ${row.state === "valid" ? "" : "refused"}` }, row.state) },
  { key: "scopes", title: "Scopes", width: "minmax(80px, 0.7fr)", least: 520, cell: (row) => h("span", { class: row.scopes.length ? null : "muted" }, row.scopes.join(", ") || "all") },
  { key: "expires_ms", title: "Expires", width: "92px", least: 640, cell: (row) => h("span", { title: when(row.expires_ms) }, row.expires_ms ? when(row.expires_ms).slice(0, 10) : "never") },
  { key: "used_ms", title: "Last use", width: "92px", least: 420, about: "To about ten minutes", cell: (row) => h("span", { title: when(row.used_ms) }, age(row.used_ms)) },
];

function keysTab(part) {
  const { data } = part;
  const valid = () => data.keys.filter((key) => key.state === "valid").length;
  const say = () => { part.status.textContent = `${plural(data.keys.length, "key")}, ${count(valid())} valid`; };
  const sorted = () => { say(); return [...data.keys].sort((a, b) => (a.state !== "valid") - (b.state !== "valid") || b.created_ms - a.created_ms); };
  const view = list(part, { label: "Keys", columns: KEY_COLUMNS, rows: sorted, keyOf: (key) => key.id, panel: (key) => keyPanel(part, key, (id) => view.reload(id)), empty: "There are no keys yet." });
  part.actions.replaceChildren(h("button", { type: "button", class: "primary", disabled: !data.authentication, onclick: () => newKey(part, (id) => view.reload(id)) }, "New key"));
  part.foot.replaceChildren(command("frazil token list"));
}

function newKey({ data }, reload) {
  const principal = textField({ required: true, maxlength: 128, placeholder: "etl" });
  const boxes = (names, legend, about) => {
    const inputs = names.map((name) => h("input", { type: "checkbox", value: name }));
    return { inputs, element: h("fieldset", {}, h("legend", {}, legend), h("small", { class: "muted" }, about), h("div", { class: "boxes" }, names.map((name, at) => h("label", {}, inputs[at], " ", h("bdi", {}, oneLine(name, 60)))))) };
  };
  const roles = boxes(data.roles.map((role) => role.name), "Roles", "The owner becomes a member. admin may do everything.");
  const scopes = boxes(data.privileges, "Scopes", "The key is good for these and what they include; none: for all that its owner may do.");
  const lifetime = chooser(LIFETIMES, "Expires");
  const chosen = (each) => each.inputs.filter((input) => input.checked).map((input) => input.value);
  const line = h("div");
  const draw = () => {
    const options = [...chosen(roles).map((role) => `--role ${quoted(role)}`), ...chosen(scopes).map((scope) => `--scope ${scope}`)];
    const [, , text] = LIFETIMES.find(([value]) => value === lifetime.value);
    line.replaceChildren(command(serverLine("token create", [principal.value || "NAME"], [...options, text ? `--expires ${text}` : ""].filter(Boolean).join(" "))));
  };
  const fields = [field("Owner", principal, "A person or a program: a principal, made if it is new."), roles.element, scopes.element, field("Expires", lifetime), line];
  formDialog("New key", fields, "Create", async (close) => {
    const key = await post(`${API}/tokens`, { principal: principal.value.trim(), roles: chosen(roles), scopes: chosen(scopes), expires_seconds: lifetime.value ? Number(lifetime.value) : null });
    close();
    showSecret(key);
    await reload(key.id);
  });
  for (const input of [principal, lifetime, ...roles.inputs, ...scopes.inputs]) input.addEventListener("input", draw);
  draw();
}

function keyPanel({ data }, key, reload) {
  const roles = data.roles.filter((role) => role.members.includes(key.principal)).map((role) => role.name);
  const may = data.authentication && key.state !== "revoked";
  const rotate = () => {
    const keep = chooser(KEEPS, "The old key stays valid for");
    const same = follow(keep, () => serverLine("token rotate", [key.id], `--keep ${KEEPS.find(([value]) => value === keep.value)[2]}`));
    formDialog("Rotate key", [h("p", {}, "A new key with the same owner, scopes and lifetime."), field("The old key stays valid for", keep), same], "Rotate", async (close) => {
      const made = await post(`${API}/tokens/rotate`, { id: key.id, keep_seconds: Number(keep.value) });
      close();
      showSecret(made);
      await reload(made.id);
    });
  };
  const revoke = async () => {
    const text = [h("p", {}, "Requests with it are refused at once, on all servers. This cannot be undone."), command(serverLine("token revoke", [key.id]))];
    if (!(await confirmed(`Revoke frz_${key.id} of ${oneLine(key.principal, 60)}?`, text, "Revoke"))) return;
    await post(`${API}/tokens/revoke`, { id: key.id }).then(() => reload(key.id)).catch(failed);
  };
  const line = (name, value, className) => [h("dt", {}, name), h("dd", { class: className }, value)];
  return [
    h("h2", {}, h("bdi", {}, oneLine(key.principal, 120))),
    h("dl", { class: "pairs" }, line("Key", `frz_${key.id}`, "mono"), line("State", key.state), line("Scopes", key.scopes.join(", ") || "all"), line("Roles", h("bdi", {}, roles.join(", ") || "none")), line("Created", when(key.created_ms)), line("Expires", key.expires_ms ? when(key.expires_ms) : "never"), line("Last use", key.used_ms ? `${when(key.used_ms)}, about` : "never")),
    h("div", { class: "buttons" }, h("button", { type: "button", class: "plain-button", disabled: !may, onclick: rotate }, "Rotate"), h("button", { type: "button", class: "plain-button bad", disabled: !may, onclick: revoke }, "Revoke")),
    h("h2", {}, "On the command line"),
    command(`frazil token rotate ${key.id}`),
    command(`frazil token revoke ${key.id}`),
  ];
}

// --- roles -----------------------------------------------------------------------------------------------------------

const ROLE_COLUMNS = [
  { key: "name", title: "Role", width: "minmax(120px, 1fr)", cell: (row) => h("bdi", {}, oneLine(row.name, 80)) },
  { key: "members", title: "Members", width: "minmax(140px, 2fr)", cell: (row) => h("bdi", { class: row.members.length ? null : "muted" }, oneLine(row.members.join(", ") || "none", 200)) },
];

function rolesTab(part) {
  const { data } = part;
  const rows = () => { part.status.textContent = plural(data.roles.length, "role"); return data.roles; };
  const view = list(part, { label: "Roles", columns: ROLE_COLUMNS, rows, keyOf: (role) => role.name, panel: (role) => rolePanel(part, role, (name) => view.reload(name)), empty: "There are no roles." });
  const create = () => {
    const name = textField({ required: true, maxlength: 128 });
    const same = follow(name, () => serverLine("role create", [name.value.trim() || "NAME"]));
    formDialog("New role", [field("Name", name, "It has no privileges until some are granted to it."), same], "Create", async (close) => {
      await post(`${API}/roles`, { name: name.value.trim() });
      close();
      await view.reload(name.value.trim());
    });
  };
  part.actions.replaceChildren(h("button", { type: "button", class: "primary", disabled: !data.authentication, onclick: create }, "New role"));
  part.foot.replaceChildren(command("frazil role list"));
}

function rolePanel({ data, warehouse }, role, reload) {
  const on = data.authentication;
  const change = (principal, member) => post(`${API}/members`, { role: role.name, principal, member }).then(() => reload(role.name));
  const remove = async (principal) => {
    const text = [h("p", {}, "It loses what the role may do, at once on all servers."), command(serverLine("role remove", [role.name, principal]))];
    if (await confirmed(`Remove ${oneLine(principal, 60)} from ${oneLine(role.name, 60)}?`, text, "Remove")) await change(principal, false).catch(failed);
  };
  const drop = async () => {
    const text = [h("p", {}, `Its grants go with it, and its ${plural(role.members.length, "member")} lose what it may do. This cannot be undone.`), command(serverLine("role drop", [role.name]))];
    if (await confirmed(`Drop the role ${oneLine(role.name, 60)}?`, text, "Drop")) await post(`${API}/roles/drop`, { name: role.name }).then(() => reload(null)).catch(failed);
  };
  const input = textField({ "aria-label": "Principal", placeholder: "Principal", required: true, disabled: !on });
  const add = h("form", { class: "inline-form" }, input, h("button", { type: "submit", class: "plain-button", disabled: !on }, "Add"));
  add.addEventListener("submit", (event) => { event.preventDefault(); change(input.value.trim(), true).catch(failed); });
  const groups = Object.entries(data.groups).flatMap(([issuer, names]) => Object.entries(names).filter(([, name]) => name === role.name).map(([group]) => `${group} of ${issuer}`));
  return [
    h("h2", {}, h("bdi", {}, oneLine(role.name, 120))),
    role.members.length ? h("ul", { class: "members" }, role.members.map((name) => h("li", {}, h("bdi", {}, oneLine(name, 120)), h("button", { type: "button", class: "copy", disabled: !on, "aria-label": `Remove ${name}`, onclick: () => remove(name) }, "remove")))) : h("p", { class: "muted" }, "No members."),
    groups.length ? h("p", { class: "muted" }, `Also the groups ${groups.join(", ")}.`) : null,
    add,
    role.name === "admin" ? h("p", { class: "muted" }, "admin has manage on the server: its members may do everything.") : h("div", { class: "buttons" }, h("button", { type: "button", class: "plain-button bad", disabled: !on, onclick: drop }, "Drop the role")),
    h("h2", {}, "On the command line"),
    follow(input, () => serverLine("role add", [role.name, input.value.trim() || "PRINCIPAL"])),
    role.members.length ? command(serverLine("role remove", [role.name, role.members.length === 1 ? role.members[0] : "PRINCIPAL"])) : null,
    command(serverLine("grant", ["read", "TABLE"], [`--to ${quoted(role.name)}`, warehouseOption(warehouse)].filter(Boolean).join(" "))),
    role.name === "admin" ? null : command(serverLine("role drop", [role.name])),
  ];
}
