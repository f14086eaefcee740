// A file is on its way as soon as it has been chosen, with a bar that tells how far it is. The form then names it by its
// address, so that a form that is refused does not send it twice. Without this the file travels with the form.

export function uploads(tree) {
  for (const place of tree.querySelectorAll("[data-upload]")) new Upload(place);
}

class Upload {
  constructor(place) {
    const find = selector => place.querySelector(selector);
    Object.assign(this, {
      words: place.dataset, form: place.closest("form"), chooser: find("[type=file]"), address: find("[data-address]"),
      row: find(".upload"), bar: find("progress"), text: find(".upload > span"), button: find(".upload button"),
      said: find("[role=status]"), fault: find("[role=alert]"),
    });
    this.chooser.addEventListener("change", () => this.chooser.files.length && this.send(this.chooser.files[0]));
    this.address.addEventListener("input", () => this.request || this.rest());
    this.button.addEventListener("click", () => this.press());
    this.form.addEventListener("submit", event => this.hold(event));
    addEventListener("beforeunload", event => this.request && event.preventDefault());
  }

  send(file) {
    this.drop();
    this.file = file;
    if (file.size > Number(this.words.limit)) return this.refuse(this.words.large);
    const request = this.request = new XMLHttpRequest();
    request.open("POST", `${this.words.upload}?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("X-CSRF", this.form.elements.csrf.value);
    request.upload.onprogress = ({loaded, total}) => this.tell(Math.floor(100 * loaded / total));
    request.onload = () => this.answered(request);
    request.onerror = () => this.fail();
    this.row.hidden = this.bar.hidden = false;
    this.offer("cancel", () => this.drop());
    this.tell(0);
    request.send(file);
  }

  tell(percent) {
    const {file: {name}, waiting, words} = this;
    this.bar.value = percent;
    this.text.textContent = `${name} · ${percent} %${waiting ? ` · ${words.waiting}` : ""}`;
    this.say(waiting ? words.waiting : `${name}: ${percent - percent % 25} %`);   // to be heard, not to be read
  }

  answered(request) {
    let answer = {};
    try {
      answer = JSON.parse(request.responseText);
    } catch { /* a proxy's own page */ }
    if (request.status !== 201 && answer.detail) return this.refuse(answer.detail);
    if (request.status !== 201) return this.fail();
    const {waiting} = this, done = this.words.done.replace("{name}", this.file.name);
    this.request = this.waiting = null;
    this.bar.hidden = true;
    this.chooser.value = "";
    this.address.value = answer.address;
    this.text.textContent = done;
    this.say(done);
    this.offer("remove", () => this.drop());
    if (waiting) this.form.requestSubmit(waiting.submitter);
  }

  // A form that is sent too early waits for its files.
  hold(event) {
    if (!this.request) return;
    event.preventDefault();
    this.waiting = event;
    this.tell(this.bar.value);
  }

  // The connection was cut; the file is still at hand.
  fail() {
    const {file} = this;
    this.refuse(this.words.lost);
    this.text.textContent = file.name;
    this.row.hidden = false;
    this.bar.hidden = true;
    this.offer("again", () => this.send(file));
  }

  refuse(why) {
    if (this.waiting) this.chooser.focus();
    this.rest();
    this.fault.textContent = why;
    this.fault.hidden = false;
    this.chooser.setAttribute("aria-invalid", "true");
  }

  // Not this file after all.
  drop() {
    const {request, file} = this;
    if (file && !request) this.address.value = "";
    this.rest();
    request?.abort();
    if (file) this.chooser.focus();
  }

  rest() {
    this.request = this.waiting = this.file = null;
    this.chooser.value = "";
    this.row.hidden = this.fault.hidden = true;
    this.say("");
    this.chooser.removeAttribute("aria-invalid");
  }

  offer(word, press) {
    this.button.textContent = this.words[word];
    this.press = press;
  }

  say(text) {
    if (this.said.textContent !== text) this.said.textContent = text;
  }
}
