// Runs before the first paint: the theme that was chosen, or that of the system.
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("frazil.theme");
  } catch {
    // storage is off: the system's theme
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
