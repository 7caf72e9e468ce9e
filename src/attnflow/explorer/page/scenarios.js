// The menu of scenarios.

export function scenarioGroups(catalogue) {
  // Options of all scenarios, grouped by paper.
  const groups = new Map();
  for (const { name, title } of catalogue) groups.set(title ?? "", [...(groups.get(title ?? "") ?? []), name]);
  return [...groups].map(([title, names]) => {
    const group = Object.assign(document.createElement("optgroup"), { label: title });
    group.append(...names.map((name) => new Option(name, name)));
    return group;
  });
}
