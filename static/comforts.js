// Small things that make a page handier: copying, menus that close, choices that apply at once, one press one job.

export function comforts() {
  document.addEventListener("click", async event => {
    const button = event.target.closest?.("[data-copy]");
    if (button) await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", event => {
    const menu = event.key === "Escape" && document.querySelector(".menu[open]");
    if (menu) {
      menu.open = false;
      menu.firstElementChild.focus();
    }
  });
  const here = document.querySelector(".places [aria-current]");
  if (here) {                   // a phone shows some of the places at a time
    const all = here.parentElement.getBoundingClientRect(), mine = here.getBoundingClientRect();
    here.parentElement.scrollLeft += mine.left - all.left - (all.width - mine.width) / 2;
  }
  const choices = document.querySelector(".menu form");
  if (choices) {
    choices.querySelector("button").hidden = true;
    choices.addEventListener("change", () => choices.requestSubmit());
  }
  for (const zone of document.querySelectorAll("[data-zone]")) zone.value ||= new Date().getTimezoneOffset();
  const every = document.querySelector("[data-pick-all]");
  if (every) {
    every.hidden = false;
    every.addEventListener("change", () => {
      for (const one of document.querySelectorAll("[name=ids]")) one.checked = every.firstElementChild.checked;
    });
  }
  let sent = false;
  document.addEventListener("submit", event => {   // one press, one job
    if (event.target.method !== "post" || event.defaultPrevented) return;
    if (sent) event.preventDefault();
    sent = true;
  });
  addEventListener("pageshow", () => sent = false);
}
