"use strict";
// Before the first paint: the reader's choice, or the system's.
try {
  const kept = localStorage.getItem("onegraph-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch { /* a page without storage follows the system */ }
