// Who may do what with a table: grants on the table itself, and on what it is in.

import { get } from "./api.js";
import { command, h, quoted, serverLine, warehouseOption } from "./dom.js";
import { oneLine, plural } from "./format.js";
import { plainTable, section } from "./parts.js";

const MEANS = {
  discover: "see that it exists",
  read: "read rows and metadata",
  write: "read and write rows",
  create: "create tables, views and namespaces",
  drop: "drop it; its files stay",
  purge: "drop it with its files",
  register: "register tables for files that exist",
  maintain: "write, and run upkeep",
  manage: "everything, grants included",
};

export async function grantsTab(table, body, { signal }) {
  const levels = await Promise.all(objects(table).map(async (object) => ({ ...object, ...(await ask(object.path, signal)) })));
  const grants = levels.flatMap((level) => (level.grants ?? []).map((grant) => ({ ...grant, level })));
  const hidden = levels.filter((level) => level.grants === null);
  const own = levels[0].grants !== null;
  const where = warehouseOption(table.warehouse);
  const line = ({ grantee, privilege, creator, level }) => {
    const user = grantee.startsWith("user:");
    return h("tr", {},
      h("th", { scope: "row" }, h("bdi", {}, oneLine(user ? grantee.slice(5) : grantee, 120))),
      h("td", { class: "muted" }, user ? "user" : "role"),
      h("td", {}, privilege),
      h("td", { class: "muted" }, MEANS[privilege] ?? ""),
      h("td", {}, level.kind, " ", h("bdi", {}, oneLine(level.name, 120)), creator ? h("span", { class: "muted" }, " (created it)") : null),
      h("td", {}, command(serverLine("revoke", level.name && level.kind !== "warehouse" ? [privilege, level.name] : [privilege], `--from ${quoted(grantee)}${level.option}`))),
    );
  };
  const heads = ["Who", "Kind", "Privilege", "May", "Granted on", "Take it away"].map((title) => ({ title }));
  body.replaceChildren(
    own
      ? section(plural(grants.length, "grant"), grants.length ? plainTable("Grants", heads, grants.map(line), "grants") : h("p", { class: "muted" }, "None on this table or on what it is in."))
      : h("p", { class: "muted" }, "Grants are shown to who may manage the table."),
    own && hidden.length ? h("p", { class: "muted" }, `Not shown, for they need the privilege manage there: grants on the ${hidden.map((level) => `${level.kind} ${level.name}`.trim()).join(", the ")}.`) : "",
    section("On the command line", command(serverLine("grant", ["read", table.label], ["--to ROLE", where].filter(Boolean).join(" "))), command(serverLine("who-can", ["read", table.label], where)), command(serverLine("why", ["USER", table.label], where))),
  );
}

// The table and what it is in, from the inside out, with the paths of their grants.
function objects(table) {
  const prefix = `/v1/${encodeURIComponent(table.warehouse)}`;
  const path = (levels) => `${prefix}/namespaces/${encodeURIComponent(levels.join("\x1f"))}`;
  const warehouse = ` ${warehouseOption(table.warehouse)}`.trimEnd();
  const namespaces = table.namespace.map((_, at) => table.namespace.slice(0, table.namespace.length - at));
  return [
    { kind: "table", name: table.label, option: warehouse, path: `${path(table.namespace)}/tables/${encodeURIComponent(table.name)}/grants` },
    ...namespaces.map((levels) => ({ kind: "namespace", name: levels.join("."), option: ` --namespace${warehouse}`, path: `${path(levels)}/grants` })),
    { kind: "warehouse", name: table.warehouse, option: warehouse, path: `/access/grants/${encodeURIComponent(table.warehouse)}` },
    { kind: "server", name: "", option: " --server", path: "/access/grants" },
  ];
}

async function ask(path, signal) {
  try {
    return await get(path, { signal });
  } catch (error) {
    if (error.status === 403 || error.status === 404) return { grants: null };
    throw error;
  }
}
