"use strict";
// Before anything is drawn, so that nothing flashes: the theme chosen last, else the system's.
{
  const root = document.documentElement;
  const chosen = localStorage.getItem("bridgehead-theme");
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

  document.addEventListener("click", (event) => {
    if (event.target.id !== "theme") return;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("bridgehead-theme", root.dataset.theme);
  });
}
