// A page that is left open outlives the server that made it. When regions come from a server with other pages than this
// one's, the page is loaded anew, but not while somebody is at something in it.

const AGAIN = 600_000;            // not twice within so long: behind a balancer, two editions may answer in turn
const KEPT = "edition";

export function renewPage(edition) {
  if (!edition || edition === document.documentElement.dataset.edition || inUse()) return;
  const [last, at] = (sessionStorage.getItem(KEPT) || "").split(" ");
  if (last && Date.now() - at < AGAIN) return;
  sessionStorage.setItem(KEPT, `${edition} ${Date.now()}`);
  location.reload();
}

const inUse = () =>
  [...document.querySelectorAll("main input, main textarea, main select")].some(changed)
  || [...document.querySelectorAll("video, audio")].some(one => !one.paused)
  || document.querySelector("dialog[open], .menu[open]") !== null;

function changed(field) {
  if (field.type === "hidden") return false;
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (field.options) return field.value !== ([...field.options].find(one => one.defaultSelected) || field.options[0])?.value;
  return field.value !== field.defaultValue;
}
