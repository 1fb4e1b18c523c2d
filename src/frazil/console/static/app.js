// The address after # says which page is shown: #/tables/WAREHOUSE, #/table/WAREHOUSE/NAMESPACE/NAME/TAB.

import { h, problem, setWarehouse } from "./dom.js";
import { bindKeys, mount, openSession, show, showSignIn, state } from "./shell.js";
import { tablesPage } from "./tables.js";

const LOADED = {
  table: () => import("./table.js"),
  pipelines: () => import("./pipelines.js"),
  plan: () => import("./plan.js"),
  sql: () => import("./sql.js"),
  upkeep: () => import("./upkeep.js"),
  connect: () => import("./connect.js"),
  access: () => import("./access.js"),
  audit: () => import("./audit.js"),
};

let leaving = new AbortController();

async function route() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  bindKeys({});
  try {
    if (!state.session) await openSession();
    const [path, search] = location.hash.slice(2).split("?");
    const [page, ...parts] = path.split("/").map(decodeURIComponent);
    const query = new URLSearchParams(search ?? "");
    state.warehouse = state.session.warehouses.includes(parts[0]) ? parts[0] : (state.session.warehouses[0] ?? null);
    setWarehouse(state.warehouse, state.session.default_warehouse);
    if (state.warehouse === null) return show("", h("div", { class: "problem" }, h("strong", {}, "No warehouse available"), h("p", {}, "You have no rights on any warehouse of this server.")));
    const module = Object.hasOwn(LOADED, page) ? await LOADED[page]() : null;
    if (signal.aborted) return;
    if (module) return await module.page({ warehouse: parts[0], parts: parts.slice(1), query }, signal);
    return tablesPage({ warehouse: state.warehouse, query }, signal);
  } catch (error) {
    if (error.name !== "AbortError" && error.status !== 401) show("", problem(error));
  }
}

document.addEventListener("frazil:signin", (event) => {
  state.session = null;
  state.tables.clear();
  leaving.abort();
  showSignIn(event.detail);
});
addEventListener("hashchange", route);
mount();
route();
