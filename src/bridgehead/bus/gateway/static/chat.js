"use strict";
// The chat page: everything that comes from the bus is put in as text, never as markup.

const log = document.getElementById("log");
const empty = document.getElementById("empty");
const form = document.getElementById("form");
const text = document.getElementById("text");
const send = document.getElementById("send");
const stop = document.getElementById("stop");
const state = document.getElementById("state");

let socket = null;
let wait = 500;
const waiting = new Map(); // questions without an end marker: id to text; they survive a lost connection
const KEPT = "bridgehead-chat";
let kept = []; // what was said, so that a reload shows it again
let mayAnswer = false;
let thinking = null;
let growing = null; // the line of an answer that is still being made

function add(kind, content) {
  empty.hidden = true;
  const line = document.createElement("li");
  line.className = kind;
  line.title = new Date().toLocaleString();
  if (typeof content === "string") line.textContent = content;
  else line.append(...content);
  log.insertBefore(line, thinking);
  line.scrollIntoView({ block: "end" });
  if (typeof content === "string" && kind !== "thinking") keep(kind, content);
  return line;
}

function keep(kind, content) {
  kept = [...kept, [kind, content]].slice(-200);
  sessionStorage.setItem(KEPT, JSON.stringify(kept));
}

function restore() {
  const said = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
  for (const [kind, content] of said) add(kind, content);
}

function paragraph(kind, words) {
  const element = document.createElement("p");
  element.className = kind;
  element.textContent = words;
  return element;
}

function over(id) { // a question is done with; a core that names none answers in order
  waiting.delete(waiting.has(id) ? id : waiting.keys().next().value);
  showWaiting();
}

function showWaiting() {
  stop.hidden = waiting.size === 0;
  if (waiting.size > 0 && thinking === null) {
    thinking = add("thinking", "thinking …");
  } else if (waiting.size === 0 && thinking !== null) {
    thinking.remove();
    thinking = null;
  }
}

function show(name, words) {
  state.dataset.state = name;
  document.getElementById("state-text").textContent = words;
  send.disabled = name !== "connected";
}

const SENTENCES = {
  policy_denied: "This is not allowed here.",
  rate_limited: "That was too fast; wait a moment.",
  too_large: "That was too long.",
  malformed: "That could not be read.",
  too_many_questions: "Too many questions wait for an answer; wait for one of them.",
  hub_down: "The assistant cannot be reached right now; say it again in a moment.",
  turn_lost: "The answer to an earlier question got lost; ask it again.",
  shutdown: "The bus is being stopped.",
};

const STATUSES = { finished: "finished", failed: "failed", needs_you: "needs you", answered: "answered", withdrawn: "no longer needed" };
const notices = new Map(); // one card for each thing that is told about, however often

function notice(data) {
  const id = String(data.id ?? ""), status = String(data.status ?? "");
  const key = data.kind + " " + id;
  const waits = data.kind === "pending" && status === "needs_you";
  const words = [STATUSES[status] ?? status, data.by ? "by " + data.by : ""].filter(Boolean).join(" ");
  const where = document.createElement("p");
  where.className = "where";
  const name = document.createElement("code");
  name.textContent = id;
  where.append(words + " · " + (data.kind ?? "") + " ", name);
  const parts = [paragraph("what", String(data.title ?? "Notice")), where];
  const [first, ...more] = String(data.prompt ?? "").trim().split("\n");
  const rest = String(data.title ?? "").includes(first) ? more.join("\n").trim() : String(data.prompt);
  if (waits && rest) parts.splice(1, 0, paragraph("asked", rest));
  if (waits) for (const [about, told] of Object.entries(data.details ?? {})) parts.push(paragraph("where", about + ": " + told));
  if (waits && mayAnswer) parts.push(answering(id, data.choices ?? [], data.digest));
  else if (waits) parts.push(paragraph("where", "answer with: bridgehead answer " + id));
  const known = notices.get(key);
  if (known) known.replaceChildren(...parts); // where it stands, so that nothing jumps
  else notices.set(key, add("notice", parts));
  notices.get(key).dataset.status = status;
}

function answering(id, choices, shown) {
  const form = document.createElement("form");
  form.className = "buttons";
  const give = (words) => {
    form.querySelectorAll("button, input").forEach((other) => { other.disabled = true; });
    socket.send(JSON.stringify({ answer: { id, text: words, shown } }));
  };
  for (const choice of choices) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = String(choice);
    button.addEventListener("click", () => give(String(choice)));
    form.append(button);
  }
  if (choices.length === 0) {
    const input = document.createElement("input");
    input.required = true;
    input.placeholder = "Your answer";
    input.setAttribute("aria-label", "Answer to " + id);
    const button = document.createElement("button");
    button.textContent = "Answer";
    form.append(input, button);
    form.addEventListener("submit", (event) => { event.preventDefault(); give(input.value); });
  }
  return form;
}

function answered(data) {
  add(data.ok ? "remark" : "remark bad", data.message);
  if (data.notice) {
    notice(data.notice); // the question as it is now, with its own buttons
  } else if (!data.ok) { // whoever was refused may try again
    notices.get("pending " + data.id)?.querySelectorAll("button, input").forEach((one) => { one.disabled = false; });
  }
}

const ANSWER = /^\/?answer\s+[a-z]-[0-9a-f]+\s+\S/i;

function received(event) {
  const said = JSON.parse(event.data);
  if (said.welcome) {
    mayAnswer = said.welcome.may_answer;
    show("connected", "connected");
    for (const [id, words] of waiting) socket.send(JSON.stringify({ id, text: words }));
  } else if (said.piece) {
    growing ??= add("theirs", [""]);
    growing.append(said.piece);
    growing.scrollIntoView({ block: "end" });
  } else if (said.speak) {
    growing?.remove(); // the whole takes the place of its pieces
    growing = null;
    const line = add("theirs", said.speak.utterance);
    if (said.speak.lang) line.lang = said.speak.lang;
  } else if (said.handled) {
    over(said.id);
  } else if (said.unmatched) {
    add("remark", "Nothing here understood that.");
  } else if (said.notice) {
    notice(said.notice);
  } else if (said.answered) {
    answered(said.answered);
  } else if (said.error) {
    over(said.error.utterance_id);
    add("remark bad", SENTENCES[said.error.code] ?? "The bridge refused that (" + said.error.code + ").");
  }
}

function closed(event) {
  if (event.code === 4009) {
    show("closed", "open in another tab");
    return;
  }
  if (event.code === 4003) {
    show("closed", "closed by the operator");
    return;
  }
  show("closed", "connection lost, trying again");
  setTimeout(connect, wait * (0.5 + Math.random()));
  wait = Math.min(wait * 2, 15000);
}

function connect() {
  show("connecting", "connecting");
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(scheme + "//" + location.host + "/chat");
  socket.addEventListener("open", () => { wait = 500; });
  socket.addEventListener("message", received);
  socket.addEventListener("close", closed);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const words = text.value.trim();
  if (!words || socket.readyState !== WebSocket.OPEN) return;
  add("mine", words);
  const id = crypto.getRandomValues(new Uint32Array(4)).join("-");
  if (!ANSWER.test(words)) waiting.set(id, words); // an answer to a pending item is not for the assistant
  showWaiting();
  socket.send(JSON.stringify({ id, text: words }));
  text.value = "";
  grow();
});

stop.addEventListener("click", () => socket.send(JSON.stringify({ stop: true })));

function grow() {
  text.style.height = "auto";
  text.style.height = text.scrollHeight + 2 + "px";
}
text.addEventListener("input", grow);
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    form.requestSubmit();
  }
});

const theme = localStorage.getItem("bridgehead-theme");
if (theme) document.documentElement.dataset.theme = theme;
document.getElementById("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("bridgehead-theme", document.documentElement.dataset.theme);
});

// The link's token is used up; keep it out of the address bar, the history and screenshots.
if (location.search) history.replaceState(null, "", "/chat");
restore();
connect();
text.focus();
