// Who has a privilege on an object, or what a principal may do with it, and by which grants.

import { get } from "./api.js";
import { command, h, serverLine, warehouseOption } from "./dom.js";
import { oneLine, plural } from "./format.js";

export function whoCan({ data, body, status, actions, foot, signal, query, warehouse }) {
  const select = (label, options, value) => h("select", { class: "field", "aria-label": label }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  const asks = select("Question", [["who", "Who has"], ["why", "What may"]], query.get("principal") ? "why" : "who");
  const privilege = select("Privilege", data.privileges.map((name) => [name, name]), query.get("privilege") ?? "read");
  const principal = h("input", { type: "text", class: "field", "aria-label": "Principal", placeholder: "Principal", autocomplete: "off", spellcheck: "false", list: "principals" });
  principal.value = query.get("principal") ?? "";
  const known = h("datalist", { id: "principals" }, [...new Set(data.keys.map((key) => key.principal))].map((name) => h("option", { value: name })));
  const kind = select("Object", [["server", "the server"], ["warehouse", "the warehouse"], ["name", "the table or view"], ["namespace", "the namespace"]], query.get("kind") ?? "warehouse");
  const place = select("Warehouse", data.warehouses.map((name) => [name, name]), query.get("in") ?? warehouse);
  const name = h("input", { type: "text", class: "field", "aria-label": "Name", placeholder: "shop.orders", autocomplete: "off", spellcheck: "false" });
  name.value = query.get("name") ?? "";
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const middle = h("span", {}), joint = h("span", {});

  const draw = () => {
    const who = asks.value === "who";
    middle.textContent = who ? "on" : "do with";
    privilege.hidden = !who;
    principal.hidden = who;
    const [above, named] = [kind.value === "server", kind.value === "name" || kind.value === "namespace"];
    place.hidden = above;
    name.hidden = !named;
    joint.textContent = above ? "" : named ? "of" : "";
    foot.replaceChildren(command(line()));
  };
  const line = () => {
    const [verb, word] = asks.value === "who" ? ["who-can", privilege.value] : ["why", principal.value || "PRINCIPAL"];
    const named = kind.value === "name" || kind.value === "namespace" ? [name.value || "NAME"] : [];
    const options = kind.value === "server" ? ["--server"] : [kind.value === "namespace" ? "--namespace" : "", warehouseOption(place.value)];
    return serverLine(verb, [word, ...named], options.filter(Boolean).join(" "));
  };
  const send = async () => {
    const asked = asks.value === "who" ? { privilege: privilege.value } : { principal: principal.value.trim() };
    const where = kind.value === "server" ? {} : { warehouse: place.value, ...(kind.value === "warehouse" ? {} : { name: name.value.trim() }), ...(kind.value === "namespace" ? { kind: "namespace" } : {}) };
    try {
      if (asks.value === "why" && !asked.principal) throw new Error("Name a principal.");
      if ((kind.value === "name" || kind.value === "namespace") && !where.name) throw new Error("Name the object, as in shop.orders.");
      show(await get("/console/api/access/explain", { query: { ...asked, ...where }, signal }));
    } catch (error) {
      if (error.name !== "AbortError" && error.status !== 401) answer.replaceChildren(h("p", { class: "bad", role: "alert" }, error.message));
    }
  };
  const show = ({ object, grants }) => {
    const row = (grant) => h("tr", {}, [grant.principal, grant.privilege, grant.grantee === `user:${grant.principal}` ? "itself" : `role ${grant.grantee}`, grant.on, grant.granted_by].map((text, at) => h(at ? "td" : "th", at ? {} : { scope: "row" }, h("bdi", {}, oneLine(text, 200)))));
    const head = h("tr", {}, ["Principal", "Privilege", "Through", "Granted on", "Granted by"].map((title) => h("th", { scope: "col" }, title)));
    answer.replaceChildren(
      h("p", {}, h("bdi", {}, object), `: ${plural(grants.length, "grant")}`),
      grants.length ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Grants" }, h("table", { class: "plain" }, h("thead", {}, head), h("tbody", {}, grants.map(row)))) : h("p", { class: "muted" }, asks.value === "who" ? "No principal has it." : "It has no privilege there."),
    );
  };

  const form = h("form", { class: "question" }, asks, privilege, principal, known, middle, kind, name, joint, place, h("button", { type: "submit", class: "primary" }, "Ask"));
  form.addEventListener("input", draw);
  form.addEventListener("submit", (event) => { event.preventDefault(); send(); });
  status.textContent = "Grants, inherited ones included";
  actions.replaceChildren();
  body.replaceChildren(form, answer);
  draw();
}
