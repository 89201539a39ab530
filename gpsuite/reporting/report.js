"use strict";
const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];

// next to the page there is room for the contents, above it there is not
if (matchMedia("(max-width: 64rem)").matches) document.querySelector(".contents details").open = false;

// what needs this script is shown by it
for (const part of all(".bar, button[data-copy]")) part.hidden = false;

// the same picture is in the file once
for (const link of all("a[data-same]")) {
  const first = document.getElementById(link.dataset.same)?.querySelector("img");
  if (!first) continue;
  const image = new Image();
  image.src = first.src;
  image.alt = link.textContent;
  image.className = link.dataset.class || "";
  link.replaceChildren(image);
}

// filter: runs by their words, rows of the comparisons by their verdicts
const words = document.getElementById("words"), verdict = document.getElementById("verdict");
const sections = all("section.run").map((section) => ({ section, rows: all("tr[data-verdict]", section), text: section.textContent.toLowerCase() }));
function filter() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { section, rows, text } of sections) {
    let any = !verdict.value;
    for (const row of rows) {
      row.hidden = Boolean(verdict.value) && row.dataset.verdict !== verdict.value;
      any = any || !row.hidden;
    }
    section.hidden = !(any && wanted.every((word) => text.includes(word)));
    shown += section.hidden ? 0 : 1;
    if (verdict.value && !section.hidden) for (const part of all("details:has(tr[data-verdict])", section)) part.open = true;
  }
  // what is not filtered would keep the hits below the first screen
  for (const part of all("#papers, section.paper")) part.hidden = wanted.length > 0 || verdict.value !== "";
  document.getElementById("shown").textContent = wanted.length || verdict.value ? `${shown} of ${sections.length} runs` : "";
}
if (words) {
  words.addEventListener("input", filter);
  verdict.addEventListener("input", filter);
  filter(); // a page that is loaded again may keep what was typed
}

// sort: a click on a column's head, or Enter there; numbers by their size, empty cells last
for (const head of all("th[scope=col]")) head.tabIndex = 0;
function value(row, column) {
  const text = row.cells[column].textContent.trim(), number = parseFloat(text.replace("–", "-"));
  return Number.isNaN(number) ? text : number;
}
function sort(head) {
  const body = head.closest("table").tBodies[0], column = head.cellIndex;
  const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  const order = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
  const compare = (a, b) => (a === "" || b === "" ? (a === "") - (b === "") : sign * order(a, b));
  body.append(...[...body.rows].sort((a, b) => compare(value(a, column), value(b, column))));
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("th")) sort(event.target);
});
document.addEventListener("click", (event) => {
  const head = event.target.closest("th");
  if (head) sort(head);
  const copy = event.target.closest("button[data-copy]");
  if (copy) {
    const source = document.getElementById(copy.dataset.copy);
    getSelection().selectAllChildren(source);
    document.execCommand("copy");
    copy.textContent = "copied";
  }
});

// what a link leads to may be folded away
function unfold() {
  let place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const target = place;
  if (target && target.closest("[hidden]") && words) {
    words.value = verdict.value = "";
    filter();
  }
  for (; place; place = place.parentElement) if (place.tagName === "DETAILS") place.open = true;
  if (target) target.scrollIntoView();
}
addEventListener("beforeprint", () => {
  for (const part of all("details")) part.open = true;
});
addEventListener("hashchange", unfold);
unfold();
