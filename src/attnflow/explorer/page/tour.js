// Guided tours: a card with one caption at a time, next and back. Every step starts the run that its caption describes.

import { typeset } from "./mathematics.js";

const $ = (id) => document.getElementById(id);

export class Tour {
  // `start(scenario, changes)` starts the run of a step; `onStep` is called after every change of the step.
  constructor(start, onStep) {
    Object.assign(this, { start, onStep, scenario: null, index: null });
    $("tour-button").onclick = () => this.open(this.offered, 0);
    $("tour-back").onclick = () => this.open(this.scenario, this.index - 1);
    $("tour-next").onclick = () => (this.isLast ? this.close() : this.open(this.scenario, this.index + 1));
    $("tour-close").onclick = () => this.close();
  }

  get isLast() { return this.index === this.scenario.tour.length - 1; }

  // The step as it stands in a link, "scenario.number" counted from one; null if no tour is open.
  get place() { return this.index === null ? null : `${this.scenario.name}.${this.index + 1}`; }

  offer(scenario) {
    // The button is shown for scenarios that have a tour; another scenario ends the tour.
    this.offered = scenario;
    $("tour-button").hidden = !scenario.tour?.length || this.index !== null;
    if (this.scenario && this.scenario.name !== scenario.name) this.close();
  }

  show(scenario, index) {
    // Show the card of a step whose run has been started.
    [this.scenario, this.index] = [scenario, index];
    $("tour-words").replaceChildren(typeset(scenario.tour[index].words));
    $("tour-place").textContent = `${index + 1} of ${scenario.tour.length}`;
    $("tour-back").disabled = index === 0;
    $("tour-next").textContent = this.isLast ? "Done" : "Next";
    $("tour").hidden = false;
    $("tour-button").hidden = true;
    this.onStep();
  }

  open(scenario, index) {
    this.show(scenario, index);
    this.start(scenario.name, scenario.tour[index].changes);
  }

  close() {
    if (this.index === null) return;
    this.scenario = this.index = null;
    $("tour").hidden = true;
    $("tour-button").hidden = !this.offered?.tour?.length;
    this.onStep();
  }
}

export function stepAt(place, catalogue) {
  // The scenario and step of a place in a link, or null.
  const [name, number] = (place ?? "").split("."), scenario = catalogue.find((one) => one.name === name), index = Number(number) - 1;
  return scenario?.tour?.[index] ? { scenario, index } : null;
}
