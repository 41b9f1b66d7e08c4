"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (id) => document.getElementById(id);
const said = one("said");
const say = (words) => { said.textContent = words; };

// light and dark
const toggle = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("onegraph-theme", root.dataset.theme); } catch { /* not kept */ }
};
one("theme").addEventListener("click", toggle);

// filters
const sites = all("article.site");
const search = one("search"), kind = one("kind"), state = one("state");
const visible = () => sites.filter((site) => !site.hidden);
const filter = () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const site of sites) {
    site.hidden = !((!kind.value || site.dataset.kind === kind.value)
      && (!state.value || site.dataset.status === state.value)
      && words.every((word) => site.dataset.words.includes(word)));
  }
  const shown = visible().length;
  for (const note of all(".nofit")) note.hidden = shown > 0;
  say(`${shown} of ${sites.length} breaks shown`);
};
if (search) {
  for (const each of [search, kind, state]) for (const event of ["input", "change"]) each.addEventListener(event, filter);
  search.form.addEventListener("submit", (event) => event.preventDefault());
}

// deep links: a hidden target is shown, folded ones are opened
const reveal = () => {
  const target = location.hash.length > 1 ? one(decodeURIComponent(location.hash.slice(1))) : null;
  if (!target) return;
  if (target.hidden && search) { search.value = kind.value = state.value = ""; filter(); }
  for (let box = target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  for (const site of sites) site.classList.toggle("current", site === target);
  target.scrollIntoView({ block: "start" });
  if (target.matches("article")) target.focus({ preventScroll: true });
};
addEventListener("hashchange", reveal);
reveal();

// copy and download
const copy = async (button) => {
  const text = one(button.dataset.from).textContent;
  let done = false;
  try { await navigator.clipboard.writeText(text); done = true; } catch {
    const area = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  say(done ? "copied" : "could not be copied: select the patch below");
  const label = button.textContent;
  button.textContent = done ? "copied" : "not copied";
  setTimeout(() => { button.textContent = label; }, 1500);
};
const download = (button) => {
  const blob = new Blob([one(button.dataset.from).textContent], { type: "text/x-diff" });
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: button.dataset.name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
for (const button of all("button.copy")) button.addEventListener("click", () => copy(button));
for (const button of all("button.download")) button.addEventListener("click", () => download(button));

// keys: j and k walk through the breaks, / searches, t changes the colours
const step = (by) => {
  const list = visible();
  if (!list.length) return;
  const at = list.findIndex((site) => "#" + site.id === location.hash);
  const next = list[at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(list.length - 1, Math.max(0, at + by))];
  location.hash = next.id;
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "t") toggle();
  else if (event.key === "/" && search) { event.preventDefault(); search.focus(); }
});

// a printed page shows everything
addEventListener("beforeprint", () => { for (const box of all("details")) box.open = true; });
