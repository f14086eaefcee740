// A browser's own notice when jobs have ended, for who looks elsewhere meanwhile. Off until somebody presses the button;
// the choice is this browser's, one for pages of a job and one for pages of all jobs.

const PACE = 1000;                // milliseconds between two notices; what ends in between is told together
const FORGET = 15_000;            // a notice that was not followed for so long stands for itself
const NAMES = 4;

export class Notices {
  // button: [data-words] names the states that are ends; only: the one job that matters, or none.
  constructor(button, only) {
    this.button = self.Notification && self.isSecureContext ? button : null;
    this.only = only;
    this.ended = [];
    this.last = -FORGET;
    if (!this.button) return;
    this.key = `notices.${only ? "job" : "all"}`;
    this.words = JSON.parse(button.dataset.words);
    button.addEventListener("click", () => this.choose());
    addEventListener("storage", () => this.show());
    this.show();
  }

  get on() {
    return this.button !== null && localStorage.getItem(this.key) === "on" && Notification.permission === "granted";
  }

  async choose() {
    const wanted = !this.on && await Notification.requestPermission() === "granted";
    if (Notification.permission === "denied") this.say(this.button.dataset.blocked);
    localStorage.setItem(this.key, wanted ? "on" : "off");
    this.show();
  }

  show() {
    this.button.hidden = false;
    this.button.setAttribute("aria-pressed", this.on);
  }

  say(text) {
    this.button.title = document.getElementById("said").textContent = text;
  }

  take({id, status}) {
    if (!this.on || !this.words[status] || document.hasFocus()) return;
    const place = document.querySelector(this.only ? "h1" : `[data-job="${CSS.escape(id)}"] .name`);
    const name = place?.textContent.replace(/\s+/g, " ").trim() || `#${id}`;
    if (!this.timer && performance.now() - this.last > FORGET) this.ended = [];
    this.ended.push({id, href: this.only ? "" : place?.href, text: `${name}: ${this.words[status]}`});
    this.told = true;
    this.timer ||= setTimeout(() => this.tell(), Math.max(0, this.last + PACE - performance.now()));
  }

  tell() {
    const {ended} = this, [one] = ended, several = ended.length > 1;
    this.timer = 0;
    this.last = performance.now();
    this.notice?.close();
    const title = several ? this.button.dataset.many.replace("{n}", ended.length) : one.text;
    const body = several ? ended.slice(-NAMES).map(({text}) => text).join("\n") : "";
    try {
      // Two tabs that tell of the same job make one notice of it.
      this.notice = new Notification(title, {body, tag: several ? "jobs" : `job-${one.id}`, icon: this.button.dataset.icon});
    } catch {                     // browsers of phones know them only from installed programs
      localStorage.setItem(this.key, "off");
      return this.show();
    }
    this.notice.onclick = () => {
      self.focus();
      if (!several && one.href) location.href = one.href;
    };
  }

  // The job of the page has ended, though no frame may have said so.
  end(status) {
    if (!this.button) return;
    if (this.only && !this.told) this.take({id: this.only, status});
    this.button.hidden = true;
  }
}
