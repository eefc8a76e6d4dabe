// Shows variants beside their originals, and keeps what a person decides about them.

const data = JSON.parse(document.getElementById("data").textContent);
const KINDS = ["accepted", "rejected", "typed"];
const FIELDS = ["id", "source", "decision", "variant", "candidate", "text"];
const byId = (id) => document.getElementById(id);
// id of a text -> its place in data.texts
const places = new Map(data.texts.flatMap((text, place) => text.ids.map((id) => [id, place])));
// "place variant" -> {decision, ...} of a row that is shown
let decided = new Map();
// Lines about candidates that are no longer shown, or about other splits.
let others = [];
// In the order of the page.
let rows = [];
// Rows that "Accept all shown" accepted last, to be taken back together.
let bulk = [];

// Texts reach the page as text nodes only.
function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

// The row that a line is about; undefined where none shows it.
function rowOf(line) {
  const place = places.get(line.id);
  if (place === undefined) return undefined;
  const variants = data.texts[place].variants;
  const fits = (text, index) => {
    if (line.decision === "rejected") return text === line.candidate;
    if (line.variant !== index + 1) return false;
    return line.decision === "typed" || text === line.candidate;
  };
  const index = variants.findIndex((variant, i) => fits(variant.text, i));
  return index < 0 ? undefined : `${place} ${index + 1}`;
}

function take(lines) {
  decided = new Map();
  others = [];
  for (const line of lines) {
    const row = rowOf(line);
    if (row === undefined) others.push(line);
    else decided.set(row, line);
  }
}

// One line a decision: those of the page in the schema's order, then the others.
function lines() {
  const order = (row) => row.place * 1000 + row.number;
  const sorted = [...rows].sort((a, b) => order(a) - order(b));
  const shown = sorted.map((row) => decided.get(row.key)).filter(Boolean);
  return [...shown, ...others];
}

const written = () =>
  lines()
    .map((line) => JSON.stringify(Object.fromEntries(
      FIELDS.filter((name) => name in line).map((name) => [name, line[name]]))) + "\n")
    .join("");

function keep(saved) {
  const state = JSON.stringify({ base: data.base, saved, lines: lines() });
  try {
    localStorage.setItem(data.key, state);
  } catch {
    if (!saved) say("This browser keeps nothing: save before you close the page.");
  }
}

function restore() {
  let state = null;
  try {
    state = JSON.parse(localStorage.getItem(data.key));
  } catch {
    // Nothing is kept, or not by this page.
  }
  if (state?.base === data.base) return take(state.lines);
  if (!state || state.saved) return take(data.decisions);
  // Of a page before: what was not saved goes before what lies in the folder.
  const own = state.lines.filter((line) => {
    const place = places.get(line.id);
    return place === undefined || data.texts[place].source === line.source;
  });
  const claims = (line) => [
    ...(line.decision === "rejected" ? [] : [`${line.id} ${line.variant}`]),
    ...("candidate" in line ? [`${line.id} = ${line.candidate}`] : []),
  ];
  const taken = new Set(own.flatMap(claims));
  take([...data.decisions.filter((line) => !claims(line).some((c) => taken.has(c))), ...own]);
  say("Decisions of an earlier page that were not saved are here again.");
}

function say(text) {
  byId("status").textContent = text;
}

function decide(row, decision, text) {
  set(row, decision, text);
  bulk = [];
  changed("");
}

// What follows any change of decisions.
function changed(message) {
  keep(false);
  say(message);
  filter();
  count();
  byId("all").textContent = bulk.length ? `Take back ${bulk.length} accepted` : "Accept all shown";
}

function acceptAll() {
  const back = bulk;
  bulk = back.length ? [] : visible().filter((row) => !row.same && !decided.has(row.key));
  for (const row of back) set(row, null);
  for (const row of bulk) set(row, "accepted");
  changed(back.length ? `Took back ${back.length} variants.` : `Accepted ${bulk.length} variants.`);
}

function set(row, decision, text) {
  const { place, number, shown } = row;
  const { ids, source } = data.texts[place];
  const before = decided.get(row.key);
  // A text that was typed is no candidate: what it replaced is.
  const candidate = before?.decision === "typed" ? before.candidate ?? null : shown;
  const line = { id: ids[0], source, decision, variant: number };
  if (!decision) decided.delete(row.key);
  else if (decision === "accepted") {
    if (before?.text !== shown) decided.set(row.key, { ...line, candidate: shown });
  } else if (decision === "typed") {
    decided.set(row.key, { ...line, ...(candidate === null ? {} : { candidate }), text });
  } else decided.set(row.key, { ...line, candidate: candidate ?? shown });
  show(row);
}

// The words of a variant, with those marked that its original lacks.
function marked(text, source) {
  const words = (one) => one.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const known = new Set(words(source));
  return text.split(/([\p{L}\p{N}]+)/u).map((part, index) =>
    index % 2 && !known.has(part.toLowerCase()) ? make("mark", {}, part) : part);
}

function rowFor(place, number) {
  const { source, variants } = data.texts[place];
  const { text: shown, note, faith } = variants[number - 1];
  const row = { key: `${place} ${number}`, place, number, shown, faith, same: shown === source };
  const button = (name, key, decision) => make("button", {
    type: "button", title: `key ${key}`, disabled: decision === "rejected" && row.same,
    onclick: () => (decision === "typed" ? type(row) : act(row, decision)),
  }, name);
  row.buttons = {
    accepted: button("Accept", "a", "accepted"),
    rejected: button("Reject", "r", "rejected"),
    typed: button("Type", "t", "typed"),
  };
  row.text = make("td", {});
  row.node = make("tr", { tabindex: "-1", onfocus: () => (current = row) },
    make("td", {}, `v${number}`), row.text, make("td", {}));
  for (const one of Object.values(row.buttons)) row.node.lastChild.append(one, " ");
  row.undo = make("button", { type: "button", title: "key u", onclick: () => act(row, null) }, "Undo");
  row.node.lastChild.append(row.undo);
  row.content = () => {
    const line = decided.get(row.key);
    const text = make("span", { class: "text" }, ...marked(shown, source));
    const parts = [text];
    if (line?.decision === "typed" && line.text !== shown) {
      parts.push(make("span", { class: "typed-text" }, line.text));
    }
    if (note) parts.push(make("small", {}, note));
    return parts;
  };
  return row;
}

let current = null;

function show(row) {
  const decision = decided.get(row.key)?.decision;
  const typed = decided.get(row.key)?.text;
  // A text that stands as it was typed is not struck out.
  const name = decision === "typed" && typed === row.shown ? "accepted" : decision ?? "";
  row.node.className = `${name}${row.same ? " same" : ""}`;
  for (const kind of KINDS) row.buttons[kind].setAttribute("aria-pressed", String(kind === decision));
  row.undo.hidden = !decision;
  row.text.replaceChildren(...row.content());
}

function count() {
  const made = [...decided.values()].map((line) => line.decision);
  const parts = KINDS.map((kind) => `${made.filter((one) => one === kind).length} ${kind}`);
  byId("count").textContent = `${made.length} of ${rows.length} decided: ${parts.join(", ")}`;
  byId("progress").max = rows.length;
  byId("progress").value = made.length;
}

function filter() {
  const wanted = byId("filter").value;
  for (const row of rows) {
    const decision = decided.get(row.key)?.decision ?? "undecided";
    row.node.hidden = wanted !== "all" && wanted !== decision;
  }
  for (const article of document.querySelectorAll("article")) {
    const shown = article.querySelector("tr:not([hidden])");
    article.hidden = !shown && !(wanted === "rejected" && article.querySelector(".before"));
  }
}

// Puts texts with a risky variant first; what people typed, and originals, are no risk.
function sort() {
  const byRisk = byId("order").value === "risk";
  const faith = (row) => (row.same || row.faith === null ? Infinity : row.faith);
  const articles = data.texts.map((_, place) => {
    const own = rows.filter((row) => row.place === place);
    return { own, key: byRisk ? Math.min(...own.map(faith)) : place };
  });
  // Infinity minus itself is no number; equal keys keep the schema's order.
  articles.sort((a, b) => (a.key === b.key ? 0 : a.key - b.key));
  rows = articles.flatMap(({ own }) => own);
  byId("texts").append(...articles.map(({ own }) => own[0].node.closest("article")));
}

const visible = () => rows.filter((row) => !row.node.hidden);

function go(row) {
  if (!row) return;
  row.node.focus();
  row.node.scrollIntoView({ block: "center" });
}

function next(step) {
  const place = rows.indexOf(current);
  const ahead = step > 0 ? rows.slice(place + 1) : rows.slice(0, Math.max(place, 0)).reverse();
  go(ahead.find((row) => !row.node.hidden));
}

// Decides, and goes on to the next row.
function act(row, decision) {
  if (decision === "rejected" && row.same) {
    return say("The original is used if no candidate is left: type another text.");
  }
  current = row;
  decide(row, decision);
  if (decision) next(1);
  if (document.activeElement === document.body) go(visible().at(-1));
}

function type(row) {
  current = row;
  const line = decided.get(row.key);
  const end = (save) => {
    const text = input.value.split(/\s+/).filter(Boolean).join(" ");
    if (save && text) decide(row, "typed", text);
    else show(row);
    go(row.node.hidden ? visible()[0] : row);
  };
  const list = `more-${row.place}`;
  const input = make("input", {
    type: "text", value: line?.text ?? row.shown, list, "aria-label": `v${row.number} of ${data.texts[row.place].source}`,
    onkeydown: (event) => {
      if (event.key === "Enter") end(true);
      if (event.key === "Escape") end(false);
      event.stopPropagation();
    },
  });
  const options = data.texts[row.place].more.map((text) => make("option", { value: text }));
  row.text.replaceChildren(...row.content(), input, make("datalist", { id: list }, ...options),
    make("small", {}, "Enter takes it, Escape leaves it"));
  input.focus();
  input.select();
}

// Candidates that were decided about before and are no longer shown.
function before(article, place) {
  for (const line of others.filter((one) => places.get(one.id) === place)) {
    const node = make("p", { class: "before" }, `${line.decision} before: ${line.candidate ?? line.text} `);
    node.append(make("button", {
      type: "button",
      onclick: () => {
        others = others.filter((one) => one !== line);
        node.remove();
        keep(false);
      },
    }, "Take back"));
    article.append(node);
  }
}

function save() {
  const url = URL.createObjectURL(new Blob([written()], { type: "application/jsonl" }));
  make("a", { href: url, download: "decisions.jsonl" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
  keep(true);
  say(`Saved ${lines().length} decisions as decisions.jsonl in your downloads.`);
}

const KEYS = {
  j: () => next(1), ArrowDown: () => next(1), k: () => next(-1), ArrowUp: () => next(-1),
  a: () => current && act(current, "accepted"), r: () => current && act(current, "rejected"),
  t: () => current && type(current), u: () => current && act(current, null), s: save,
};

document.addEventListener("keydown", (event) => {
  const field = event.target.closest("input, select, textarea");
  if (field || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
});
byId("filter").addEventListener("change", filter);
byId("order")?.addEventListener("change", sort);
byId("all").addEventListener("click", acceptAll);
byId("save").addEventListener("click", save);
restore();
data.texts.forEach((text, place) => {
  const own = text.variants.map((_, index) => rowFor(place, index + 1));
  rows.push(...own);
  const article = make("article", {}, make("h2", {}, text.source),
    make("div", { class: "where" }, text.where),
    make("table", {}, make("tbody", {}, ...own.map((row) => row.node))));
  own.forEach(show);
  before(article, place);
  byId("texts").append(article);
});
if (rows.length) rows[0].node.tabIndex = 0;
filter();
count();
