"use strict";
// Asks the server for the states of one dialogue under two wordings, and shows both.

const byId = (id) => document.getElementById(id);
const SIDES = ["a", "b"];
const NO_OTHER = "";
// Names of users are keys of Maps only: objects have keys of their own, as "constructor".
let wordings = []; // their `services` are Maps from the original name
let limits = {};
// side -> original name of a service -> kind -> name in the wording -> text of the user
const edits = { a: new Map(), b: new Map() };
let fields = 0;

// Texts of users and models reach the page as text nodes only.
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const wordingOf = (side) => wordings.find((w) => w.name === byId(`wording-${side}`).value);

function chosenServices() {
  return [...document.querySelectorAll("#services input:checked")].map((box) => box.value);
}

// The services that are asked about, by original name, that a wording has.
function servicesOf(wording) {
  const chosen = chosenServices();
  return [...wordings[0].services.keys()].filter(
    (name) => (!chosen.length || chosen.includes(name)) && wording.services.has(name)
  );
}

// What of a service has a description: [kind, name, text]; kind "" is the service itself.
function described(service) {
  return [
    ["", service.service_name, service.description],
    ...service.slots.map((slot) => ["slots", slot.name, slot.description]),
    ...service.intents.map((intent) => ["intents", intent.name, intent.description]),
  ];
}

const editOf = (side, original, kind, name) => edits[side].get(original)?.get(kind)?.get(name);

function textOf(side, original, kind, item) {
  return editOf(side, original, kind, item.name) ?? item.description;
}

// The Map at a key, made if need be.
function mapAt(map, key) {
  if (!map.has(key)) map.set(key, new Map());
  return map.get(key);
}

// Keeps the text of a description; null is the original text again.
function edit(side, original, kind, name, text) {
  const kinds = mapAt(edits[side], original);
  const texts = mapAt(kinds, kind);
  if (text !== null) texts.set(name, text);
  else texts.delete(name);
  if (!texts.size) kinds.delete(kind);
  if (!kinds.size) edits[side].delete(original);
}

function showEditors(side) {
  const place = document.querySelector(`#edits-${side} div`);
  const wording = wordingOf(side);
  byId(`edits-${side}`).hidden = !wording;
  place.replaceChildren();
  // Hundreds of fields are made when they are looked at.
  if (!wording || !byId(`edits-${side}`).open) return;
  for (const original of servicesOf(wording)) {
    const service = wording.services.get(original);
    place.append(make("h2", {}, service.service_name));
    for (const [kind, name, text] of described(service)) {
      const id = `edit-${++fields}`;
      const edited = () => editOf(side, original, kind, name);
      const input = make("input", {
        type: "text", id, value: edited() ?? text, maxLength: limits.description,
      });
      const mark = () => input.classList.toggle("edited", edited() !== undefined);
      input.addEventListener("input", () => {
        edit(side, original, kind, name, input.value === text ? null : input.value);
        mark();
      });
      mark();
      const what = { "": "the service", slots: `slot ${name}`, intents: `intent ${name}` }[kind];
      place.append(make("label", { htmlFor: id }, what), input);
    }
  }
}

// The edits as JSON; `Object.fromEntries` makes "__proto__" a key as any other.
function schemaOf(side, wording) {
  const asked = servicesOf(wording);
  const changed = [...edits[side]].filter(([original]) => asked.includes(original));
  const texts = ([kind, named]) => kind ? [kind, Object.fromEntries(named)]
    : ["description", [...named.values()][0]];
  return {
    wording: wording.name,
    edits: Object.fromEntries(
      changed.map(([original, kinds]) => [original, Object.fromEntries([...kinds].map(texts))])
    ),
  };
}

async function predict(side, dialogue) {
  const wording = wordingOf(side);
  const services = servicesOf(wording);
  if (!services.length) throw new Error(`${wording.name} has no wording of these services.`);
  const answer = await fetch("api/predict", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ dialogue, services, schema: schemaOf(side, wording) }),
  });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return { side, wording, services, turns: found.turns, title: titleOf(side, wording) };
}

function titleOf(side, wording) {
  return Object.keys(schemaOf(side, wording).edits).length ? `${wording.name}, edited` : wording.name;
}

// A frame of an answer as rows by position: what it is, value, where it was said.
function rowsOf(answer, turn, original) {
  const service = answer.wording.services.get(original);
  const frame = answer.turns[turn].frames.find((f) => f.service === service?.service_name);
  if (!frame) return null;
  const { active_intent: active, requested_slots: asked } = frame.state;
  const values = new Map(Object.entries(frame.state.slot_values));
  const spans = new Map(Object.entries(frame.spans));
  const agreement = new Map(Object.entries(frame.agreement ?? {}));
  const intent = service.intents.findIndex((item) => item.name === active);
  const places = asked.map((name) => service.slots.findIndex((slot) => slot.name === name));
  return {
    slots: service.slots.map((slot) => ({
      text: (values.get(slot.name) ?? []).join(" | "),
      said: spans.get(slot.name),
      description: textOf(answer.side, original, "slots", slot),
      agreement: agreement.get(slot.name),
      notes: ["uncertain", "unsaid"].filter((kind) => frame[kind]?.includes(slot.name)),
    })),
    intent: {
      text: active === "NONE" ? "" : active,
      same: intent < 0 ? active : String(intent),
      description: intent < 0 ? "" : textOf(answer.side, original, "intents", service.intents[intent]),
    },
    requested: { text: asked.join(", "), same: places.sort().join() },
  };
}

// The share of further wordings that agree, and the answers of those that do not.
function agreed({ share, others }) {
  const node = make("div", { class: "agreement" }, `${Math.round(100 * share)}% of the wordings agree`);
  const items = others.map(({ wording, description, values }) =>
    make("li", {}, `wording ${wording} (“${description}”): ${values.join(" | ") || "no value"}`)
  );
  if (items.length) node.append(make("ul", {}, ...items));
  return node;
}

function cell(row) {
  if (!row) return make("td", {}, make("span", { class: "none" }, "not asked"));
  const td = make("td", {});
  td.append(row.text ? make("span", { class: "value" }, row.text) : make("span", { class: "none" }, "no value"));
  if (row.said) td.append(` (turn ${row.said.turn + 1}: “${row.said.text}”)`);
  if (row.description) td.append(make("div", { class: "description" }, row.description));
  for (const note of row.notes ?? []) td.append(make("span", { class: "badge" }, note));
  if (row.agreement) td.append(agreed(row.agreement));
  return td;
}

const same = (one, other) => (one.same ?? one.text) === (other.same ?? other.text);

function line(name, cells, isSlot) {
  const differs = cells.length > 1 && cells.every(Boolean) && !same(cells[0], cells[1]);
  const head = make("th", { scope: "row" }, name);
  if (differs) head.append(make("span", { class: "badge" }, "≠ differs"));
  const row = make("tr", { class: differs ? "differs" : "" }, head, ...cells.map(cell));
  return { row, differs: differs && isSlot };
}

// All slots have a row: a value that was missed under both wordings is seen by its absence.
function table(answers, turn, original) {
  const found = answers.map((answer) => rowsOf(answer, turn, original));
  const service = wordings[0].services.get(original);
  const lines = service.slots.map((slot, place) =>
    line(slot.name, found.map((rows) => rows?.slots[place]), true)
  );
  lines.push(line("intent", found.map((rows) => rows?.intent), false));
  lines.push(line("asked for", found.map((rows) => rows?.requested), false));
  const different = service.slots.filter((_, place) => lines[place].differs);
  const heads = ["slot", ...answers.map((answer) => answer.title)];
  const node = make("table", {},
    make("caption", {}, original),
    make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...lines.map((one) => one.row))
  );
  return { node, different: different.map((slot) => slot.name) };
}

// An utterance, with what was said for a value of its turn marked.
function quoted(turn, spans) {
  const quote = make("blockquote", { class: turn.speaker.toLowerCase() }, `${turn.speaker}: `);
  let end = 0;
  // Positions count characters, strings of JavaScript count halves of some.
  const letters = [...turn.utterance];
  for (const span of spans.sort((x, y) => x.start - y.start)) {
    if (span.start < end) continue;
    quote.append(letters.slice(end, span.start).join(""), make("mark", {}, span.text));
    end = span.end;
  }
  quote.append(letters.slice(end).join(""));
  return quote;
}

function show(answers) {
  const place = byId("result");
  place.replaceChildren();
  const { turns } = answers[0];
  let before = [];
  let names = [];
  turns.forEach((turn, index) => {
    before.push(index);
    if (turn.speaker !== "USER") return;
    const spans = answers.flatMap((a) => a.turns[index].frames.flatMap((f) => Object.values(f.spans)));
    const tables = wordings[0] ? answers[0].services.concat(
      answers.length > 1 ? answers[1].services.filter((s) => !answers[0].services.includes(s)) : []
    ).map((original) => table(answers, index, original)) : [];
    names = tables.flatMap((one) => one.different);
    place.append(make("article", {},
      make("h2", {}, `After turn ${index + 1}`),
      ...before.map((at) => quoted(turns[at], spans.filter((span) => span.turn === at))),
      ...tables.map((one) => one.node)
    ));
    before = [];
  });
  if (answers.length < 2) return "Done.";
  const titles = `${answers[0].title} and ${answers[1].title}`;
  if (!names.length) return `In the end, no slot differs between ${titles}.`;
  return `In the end, ${names.length} ${names.length > 1 ? "slots differ" : "slot differs"} between ${titles}: ${names.join(", ")}.`;
}

function say(text, isError = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("error", isError);
}

async function ask() {
  if (byId("ask").disabled) return;
  byId("ask").disabled = true;
  say("The tracker reads...");
  try {
    // An empty line would begin another dialogue.
    const dialogue = byId("dialogue").value.split("\n").filter((text) => text.trim()).join("\n");
    const answers = [];
    for (const side of SIDES) if (wordingOf(side)) answers.push(await predict(side, dialogue));
    say(show(answers));
  } catch (error) {
    byId("result").replaceChildren();
    say(error.message, true);
  } finally {
    byId("ask").disabled = false;
  }
}

async function start() {
  ({ wordings, limits } = await (await fetch("api/schemas")).json());
  for (const one of wordings) one.services = new Map(Object.entries(one.services));
  for (const name of wordings[0].services.keys()) {
    const box = make("input", { type: "checkbox", value: name });
    box.addEventListener("change", () => SIDES.forEach(showEditors));
    byId("services").append(make("label", {}, box, ` ${name}`));
  }
  for (const side of SIDES) {
    const select = byId(`wording-${side}`);
    if (side === "b") select.append(make("option", { value: NO_OTHER }, "none"));
    select.append(...wordings.map((w) => make("option", { value: w.name }, w.name)));
    select.addEventListener("change", () => {
      edits[side].clear();
      showEditors(side);
    });
    byId(`edits-${side}`).addEventListener("toggle", () => showEditors(side));
  }
  // Without variants, the second wording is the first one, to be edited.
  byId("wording-b").value = (wordings[1] ?? wordings[0]).name;
  SIDES.forEach(showEditors);
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
byId("dialogue").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("form").requestSubmit();
});
start().catch((error) => say(`The server does not answer: ${error.message}`, true));
