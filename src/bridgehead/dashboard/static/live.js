"use strict";
// Live parts of a page: an element with `data-live` is fetched again when an event it names was recorded.
// What was fetched is parsed as a document of its own (no script of it runs) and exchanged node by node.

const QUIET_MS = 250; // events come in bursts
const AGAIN_MS = 30000; // relative times grow old by themselves
const POLL_MS = 2000; // what changes without an event in the record says `data-poll`

const connection = document.getElementById("connection");
let due = new Set();
let timer = null;
let fetching = false;

function state(name) {
  connection.dataset.state = name;
  document.getElementById("connection-text").textContent = name;
}

function parts() {
  return document.querySelectorAll("[data-live][id]");
}

function concerns(part, told) {
  if (part.dataset.run && told.run && part.dataset.run !== told.run) return false;
  return part.dataset.live.split(" ").some((kind) => kind === "*" || told.kind.startsWith(kind));
}

// An answer to a form that was refused is no page one could fetch again: it keeps what was typed.
const still = document.body.hasAttribute("data-still");

function want(chosen) {
  if (still) return;
  for (const part of chosen) due.add(part.id);
  if (due.size && timer === null) timer = setTimeout(refresh, QUIET_MS);
}

async function refresh() {
  timer = null;
  if (fetching || document.hidden) return;
  fetching = true;
  const ids = due;
  due = new Set();
  try {
    const answer = await fetch(location.href, { headers: { "X-Live": "1" }, cache: "no-store" });
    if (answer.status === 401) state("signed out");
    if (answer.ok) exchange(new DOMParser().parseFromString(await answer.text(), "text/html"), ids);
  } catch {
    ids.forEach((id) => due.add(id)); // the server is away; `open` asks again
  }
  fetching = false;
  if (due.size && connection.dataset.state === "connected") want([]);
}

function exchange(fresh, ids) {
  let gone = false;
  for (const id of ids) {
    const old = document.getElementById(id);
    const next = fresh.getElementById(id);
    if (old && next) merge(old, next);
    else if (old) gone = true;
  }
  countInTitle();
  // The page has another shape by now. Asked for anew, never reloaded: that would send a form again.
  if (gone && !busy(document.body)) location.replace(location.pathname + location.search);
}

// Someone is writing here, or has written something that was not sent yet.
function busy(element) {
  const active = document.activeElement;
  if (element.contains(active) && active.matches("textarea, input:not([type=hidden]), select")) return true;
  return [...element.querySelectorAll("textarea, input:not([type=hidden])")].some((one) => one.value !== one.defaultValue);
}

function keyed(element) {
  return element.children.length > 0 && [...element.children].every((child) => child.id);
}

function merge(old, next) {
  keepOpen(old, next);
  if (old.isEqualNode(next)) return;
  if (keyed(old) && keyed(next)) mergeChildren(old, next);
  else if (!busy(old)) replace(old, next);
}

function mergeChildren(old, next) {
  const wanted = new Set([...next.children].map((child) => child.id));
  for (const child of [...old.children]) if (!wanted.has(child.id) && !busy(child)) child.remove();
  let place = old.firstElementChild;
  for (const fresh of [...next.children]) {
    const known = [...old.children].find((child) => child.id === fresh.id);
    if (!known) old.insertBefore(document.adoptNode(fresh), place);
    else {
      if (known !== place) old.insertBefore(known, place);
      place = known.nextElementSibling;
      merge(known, fresh);
    }
  }
  for (const { name, value } of next.attributes) old.setAttribute(name, value);
}

function replace(old, next) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const place = focused && (focused.id || focused.closest("[id]").id);
  old.replaceWith(document.adoptNode(next));
  if (!place) return;
  const again = document.getElementById(place);
  (again?.matches("details") ? again.querySelector("summary") : again)?.focus({ preventScroll: true });
}

// What a person opened stays open, what they closed stays closed.
function keepOpen(old, next) {
  for (const shown of [old, ...old.querySelectorAll("details[id]")]) {
    if (!shown.matches("details[id]")) continue;
    const fresh = next.id === shown.id ? next : next.querySelector(`[id="${CSS.escape(shown.id)}"]`);
    fresh?.toggleAttribute("open", shown.open);
  }
}

function connect() {
  // From the moment the page was made: nothing falls between its making and its listening.
  const source = new EventSource(`/live?after=${document.body.dataset.seq ?? ""}`);
  let lost = false;
  source.addEventListener("open", () => {
    state("connected");
    if (lost) want(parts());
    lost = false;
  });
  source.addEventListener("error", () => {
    lost = true;
    if (source.readyState !== EventSource.CLOSED) return state("connecting");
    if (connection.dataset.state !== "signed out") state("closed");
    setTimeout(connect, 5000);
    want(parts()); // finds out whether we may still come in
  });
  source.addEventListener("reload", () => want(parts()));
  source.addEventListener("message", (message) => {
    const told = JSON.parse(message.data);
    want([...parts()].filter((part) => concerns(part, told)));
  });
}

// A link to something folded up unfolds it.
function unfold() {
  let name = location.hash.slice(1);
  try {
    name = decodeURIComponent(name);
  } catch {
    return; // no address a page of ours gave out
  }
  const target = document.getElementById(name);
  if (target?.matches("details")) target.open = true;
}
addEventListener("hashchange", unfold);
unfold();

// A form is sent once, however often its button is pressed; coming back to the page it can be sent again.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  if ("sent" in event.target.dataset) event.preventDefault();
  event.target.dataset.sent = "";
});
addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach((form) => delete form.dataset.sent));

// The number of pending items is in the tab's title, where one sees it while elsewhere.
const title = document.title;
function countInTitle() {
  const waiting = parseInt(document.getElementById("pending-count").textContent, 10);
  document.title = waiting ? `(${waiting}) ${title}` : title;
}
countInTitle();

// Single keys, which can be switched off: `/` filters, `j` and `k` go from entry to entry, `?` shows what there is.
const keys = document.getElementById("keys");
const keysOn = document.getElementById("keys-on");
keysOn.checked = localStorage.getItem("keys") !== "off";
keysOn.addEventListener("change", () => localStorage.setItem("keys", keysOn.checked ? "on" : "off"));
document.getElementById("keys-open").addEventListener("click", () => keys.showModal());

function goTo(step) {
  const entries = [...document.querySelectorAll("main .row a, main tbody a, main details > summary")];
  const shown = entries.filter((one) => one.checkVisibility());
  const place = shown.indexOf(document.activeElement) + step;
  shown[Math.max(0, Math.min(shown.length - 1, place))]?.focus();
}

addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox]), textarea, select");
  if (typing || keys.open || !keysOn.checked || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { j: 1, k: -1 }[event.key];
  if (step) goTo(step);
  else if (event.key === "/") document.querySelector("main form[data-filter] :is(input:not([type=hidden]), select)")?.focus();
  else if (event.key === "?") keys.showModal();
  else return;
  event.preventDefault();
});

// A filter chosen with the mouse takes effect at once. By keyboard one passes over choices on the way to another, so
// there, and without this script, its button does it.
let byPointer = false;
addEventListener("pointerdown", () => (byPointer = true), true);
addEventListener("keydown", () => (byPointer = false), true);
document.addEventListener("change", (event) => {
  if (byPointer && event.target.matches("form[data-filter] select")) event.target.form.requestSubmit();
});

document.addEventListener("visibilitychange", () => want(document.hidden ? [] : parts()));
setInterval(() => want(parts()), AGAIN_MS);
setInterval(() => want([...parts()].filter((part) => "poll" in part.dataset && !document.hidden)), POLL_MS);
connect();
