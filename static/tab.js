// The tab says how far the job of the page has come: in its title, and by a ring that closes.

export function tellTab() {
  const {title, icon: name, rings} = document.querySelector("[data-title]")?.dataset || {};
  if (!title) return;
  const percent = document.querySelector("[data-rings] [data-bar]")?.getAttribute("value");
  const words = `${title.replace("{percent}", percent ?? 0)} · Accepted`;
  if (document.title !== words) document.title = words;
  const icon = document.getElementById("tab-icon");
  const wanted = title.includes("{percent}") && percent
    ? rings.replace("{percent}", percent - percent % 5) : icon.dataset[name];
  if (icon.getAttribute("href") !== wanted) icon.href = wanted;
}
