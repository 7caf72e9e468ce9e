// "Ask me first": prediction and verdict stay hidden until the user has said where the tokens will go, and has seen the run or asked.

const $ = (id) => document.getElementById(id);

export class Question {
  #choice = null;
  #isRevealed = false;
  #key = null; // of the run that is asked about
  #model = null;
  #verdict = {};

  constructor({ play, onChange }) {
    // `play(plays)` plays or pauses the run; `onChange` is called when the mode is switched.
    Object.assign(this, { play, onChange, choices: [] });
    $("ask").onchange = () => { this.#reset(); if (this.isOpen) play(false); onChange(); };
    $("reveal").onclick = () => this.#reveal();
  }

  get isOn() { return $("ask").checked; }

  set isOn(isOn) { $("ask").checked = isOn; this.#reset(); }

  get isOpen() { return this.isOn && !this.#choice; } // whether an answer is awaited

  begin(model) {
    // A run was started: ask again if it is another one.
    const key = JSON.stringify([model.scenario, model.settings, model.placed]);
    this.#model = model;
    this.#verdict = {};
    if (key !== this.#key) this.#reset();
    this.#key = key;
    if (this.isOpen) this.play(false);
    this.#paint();
  }

  show(model) {
    // The model on display has changed: so may the prediction.
    this.#model = model;
    this.#paint();
  }

  judge(verdict) {
    this.#verdict = verdict;
    this.#paint();
  }

  end() { if (this.#choice) this.#reveal(); }

  #reset() {
    [this.#choice, this.#isRevealed] = [null, false];
    this.#paint();
  }

  #reveal() {
    if (this.#isRevealed) return;
    this.#isRevealed = true;
    this.#paint();
  }

  #choose(choice) {
    this.#choice = choice;
    this.#paint();
    this.play(true);
  }

  #paint() {
    const isAsking = this.isOn && !this.#isRevealed;
    document.body.classList.toggle("asking", isAsking);
    $("question").hidden = !this.isOn;
    if (!this.isOn || !this.#model) return;
    $("reveal").hidden = !this.#choice || this.#isRevealed;
    $("choices").hidden = Boolean(this.#choice);
    $("question-words").textContent = this.#words();
    const side = this.#model.isSphere ? "on_sphere" : "in_space", offered = this.choices.filter((choice) => choice[side]);
    if (this.#choice || $("choices").dataset.side === side) return;
    $("choices").dataset.side = side;
    $("choices").replaceChildren(...offered.map((choice) => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: choice.words });
      button.onclick = () => this.#choose(choice);
      return button;
    }));
  }

  #words() {
    if (!this.#choice) return "Where will the tokens go?";
    const { words, limits } = this.#choice, chosen = `You chose “${words}”`;
    if (!this.#isRevealed) return `${chosen}. The answer follows at the end of the run.`;
    const { limits: predicted = [], words: theory } = this.#model.prediction ?? {}, { answer, limit } = this.#verdict;
    const isKnown = predicted.some((one) => one !== "unknown");
    const agreed = predicted.some((one) => limits.includes(one)) ? ", as theory predicts." : isKnown ? `. Theory predicts: ${theory}.` : ". Theory predicts nothing for this model.";
    if (!answer || answer === "not-yet") return `${chosen}${agreed} The run is not decided yet.`;
    return `${chosen}${agreed}${limits.includes(limit) ? " The run shows it." : ""}`;
  }
}
