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

async function answers() {
  try {
    return (await fetch("/healthz", { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

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

function lost() {
  say(words.lostServer, "bad", ...saver());
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
  if (await answers()) {
    if (button && button.name) {
      const chosen = document.createElement("input");
      [chosen.type, chosen.name, chosen.value] = ["hidden", button.name, button.value];
      form.append(chosen);
    }
    form.submit();
  } else {
    sending = false;
    lost();
  }
});
// A page that comes back as it was left is shown as things stand now.
window.addEventListener("pageshow", (event) => { if (event.persisted) window.location.reload(); });

for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}

// A table: dropped or chosen, sent with progress; then its page is shown.
const tables = document.querySelector("form[data-table]");
if (tables) {
  const file = tables.querySelector("input[type=file]");
  const place = tables.querySelector(".drop");
  const bar = tables.querySelector("progress");
  const state = tables.querySelector("[data-state]");
  for (const name of ["dragenter", "dragover"]) {
    place.addEventListener(name, (event) => { event.preventDefault(); place.classList.add("over"); });
  }
  for (const name of ["dragleave", "drop"]) {
    place.addEventListener(name, () => place.classList.remove("over"));
  }
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    if (!event.dataTransfer.files.length) return;
    file.files = event.dataTransfer.files;
    tables.requestSubmit();
  });
  tables.addEventListener("submit", (event) => {
    event.preventDefault();
    const [table] = file.files;
    if (sending) return;
    if (!table) {
      say(tables.dataset.table, "care");
      file.focus();
      return;
    }
    sending = true;
    say("");
    const request = new XMLHttpRequest();
    bar.hidden = false;
    let told = -1;
    request.upload.addEventListener("progress", ({ loaded, total }) => {
      bar.max = total;
      bar.value = loaded;
      const share = Math.floor((10 * loaded) / total) * 10;
      if (share === told) return; // a sentence for each tenth: more would drown a screen reader
      told = share;
      state.textContent = words.sending.replace("{name}", table.name).replace("{share}", `${share} %`);
    });
    const failed = () => { sending = false; bar.hidden = true; state.textContent = ""; lost(); };
    request.addEventListener("error", failed);
    request.addEventListener("abort", failed);
    request.addEventListener("load", () => {
      sending = false;
      bar.hidden = true;
      if (request.responseURL && request.status < 400) {
        window.location.assign(request.responseURL);
      } else {
        const answer = new DOMParser().parseFromString(request.responseText, "text/html");
        state.textContent = "";
        say(answer.querySelector("[data-reason]")?.textContent.trim() || `${request.status}`, "bad");
      }
    });
    request.open("POST", tables.action);
    request.setRequestHeader("Accept", "text/html");
    request.send(new FormData(tables));
  });
}

// A table that is being answered: its rows are counted here, and the page is loaded again when it is done.
const running = document.querySelector("[data-progress]");
if (running) {
  const bar = running.querySelector("progress");
  const state = running.querySelector("[data-state]");
  let failures = 0;
  const look = async () => {
    try {
      const answer = await fetch(running.dataset.progress, { cache: "no-store" });
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
