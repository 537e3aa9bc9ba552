// What the page does better with JavaScript. Everything works without it: forms are sent, pages are loaded.
"use strict";

const live = document.getElementById("live");
const words = document.body.dataset; // sentences that only the browser needs

/** Say a sentence where it is seen and read aloud; `kind` is yes, wait, care or bad. */
function say(sentence, kind = "wait", ...more) {
  live.replaceChildren();
  if (!sentence) return;
  const box = document.createElement("div");
  box.className = `verdict ${kind}`;
  const text = document.createElement("p");
  text.textContent = sentence;
  box.append(text, ...more);
  live.append(box);
}

/** Whether somebody takes what is sent: "yes"; "new", a server that does not know this page; or "no". */
async function taken() {
  const id = document.getElementById("session")?.dataset.case ?? "";
  try {
    const answer = await fetch(`/here?case=${id}`, { cache: "no-store" });
    return answer.ok ? "yes" : unknown(answer) ? "new" : "no";
  } catch {
    return "no";
  }
}

const unknown = ({ status }) => status === 401 || status === 404;

/** Keep the case that is on the screen, though nobody answers any more. */
function saver() {
  const kept = document.getElementById("session");
  if (!kept) return [];
  const link = document.createElement("a");
  link.className = "button";
  link.download = "case.json";
  link.href = URL.createObjectURL(new Blob([kept.content.textContent.trim()], { type: "application/json" }));
  link.textContent = words.lostSave;
  return [link];
}

function lost(why = "no") {
  say(why === "new" ? words.newServer : words.lostServer, "bad", ...saver());
}

// A form is sent only if somebody is there to take it: nothing that was typed is lost.
let sending = false;
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.dataset.table !== undefined) return;
  event.preventDefault();
  if (sending) return;
  sending = true;
  const button = event.submitter;
  const found = await taken();
  if (found === "yes") {
    if (button && button.name) {
      const chosen = document.createElement("input");
      [chosen.type, chosen.name, chosen.value] = ["hidden", button.name, button.value];
      form.append(chosen);
    }
    form.submit();
  } else {
    sending = false;
    lost(found);
  }
});
// A page that comes back as it was left is shown as things stand now.
window.addEventListener("pageshow", (event) => { if (event.persisted) window.location.reload(); });

for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}

// A table is sent with progress; then its page is shown.
const tables = document.querySelector("form[data-table]");
const bar = tables?.querySelector("progress");

function send(table, form) {
  const state = tables?.querySelector("[data-state]") ?? live;
  if (table.size > Number(tables?.dataset.most ?? Infinity)) {
    say(tables.dataset.large, "bad");
    return;
  }
  sending = true;
  say("");
  const request = new XMLHttpRequest();
  if (bar) bar.hidden = false;
  let told = -1;
  request.upload.addEventListener("progress", ({ loaded, total }) => {
    if (bar) [bar.max, bar.value] = [total, loaded];
    const share = Math.floor((10 * loaded) / total) * 10;
    if (share === told) return; // a sentence for each tenth: more would drown a screen reader
    told = share;
    state.textContent = words.sending.replace("{name}", table.name).replace("{share}", `${share} %`);
  });
  const over = () => {
    sending = false;
    if (bar) bar.hidden = true;
    state.textContent = "";
  };
  const failed = () => { over(); lost(); };
  request.addEventListener("error", failed);
  request.addEventListener("abort", failed);
  request.addEventListener("load", () => {
    over();
    if (request.responseURL && request.status < 400) {
      window.location.assign(request.responseURL);
    } else if (unknown(request)) {
      lost("new");
    } else {
      const answer = new DOMParser().parseFromString(request.responseText, "text/html");
      say(answer.querySelector("[data-reason]")?.textContent.trim() || `${request.status}`, "bad");
    }
  });
  request.open("POST", "/table");
  request.setRequestHeader("Accept", "text/html");
  request.send(form);
}

tables?.addEventListener("submit", (event) => {
  event.preventDefault();
  const file = tables.querySelector("input[type=file]");
  if (sending) return;
  if (file.files.length) {
    send(file.files[0], new FormData(tables));
  } else {
    say(tables.dataset.table, "care");
    file.focus();
  }
});

// A file that is dropped, wherever it is: a table is answered, a case that was kept is opened. A page that takes neither
// stays as it is; by itself a browser would show the file in its place, and what was typed would be lost.
const place = tables?.querySelector(".drop");
const marked = (over) => place?.classList.toggle("over", over);
const holdsFile = ({ dataTransfer }) => dataTransfer?.types.includes("Files");
for (const name of ["dragenter", "dragover"]) {
  document.addEventListener(name, (event) => {
    if (!holdsFile(event)) return;
    event.preventDefault();
    marked(true);
  });
}
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) marked(false); });
document.addEventListener("drop", (event) => {
  if (!holdsFile(event)) return;
  event.preventDefault();
  marked(false);
  const { files } = event.dataTransfer;
  const taker = document.querySelector("input[type=file]");
  if (!files.length || sending) return;
  if (taker) {
    taker.files = files;
    taker.form.requestSubmit();
  } else if (document.querySelector("nav a[href='/table']")) {
    const form = new FormData();
    form.append("table", files[0]);
    send(files[0], form);
  }
});

// A table that is being answered: its rows are counted here, and the page is loaded again when it is done.
const running = document.querySelector("[data-progress]");
if (running) {
  const bar = running.querySelector("progress");
  const state = running.querySelector("[data-state]");
  let failures = 0;
  const look = async () => {
    try {
      const answer = await fetch(running.dataset.progress, { cache: "no-store" });
      if (unknown(answer)) { lost("new"); return; }
      if (!answer.ok) throw new Error(answer.status);
      const now = await answer.json();
      if (failures) say(words.backAgain, "yes");
      failures = 0;
      if (now.done) { window.location.reload(); return; }
      if (now.share !== null) bar.value = now.share;
      state.textContent = now.told;
    } catch {
      if (++failures === 2) lost();
    }
    setTimeout(look, failures ? 1500 : 400);
  };
  look();
}
