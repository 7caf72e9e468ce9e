// Colours for canvases, from the light or dark style sheet.

const NAMES = ["paper", "card", "ink", "grey", "pale", "accent", "good", "bad", "alone", "weight", "rule"];

export function readTheme(theme = {}) {
  const style = getComputedStyle(document.documentElement);
  for (const name of NAMES) theme[name] = style.getPropertyValue(`--${name}`).trim();
  for (const name of ["alone", "card", "paper", "weight"]) theme[`${name}Numbers`] = numbersOf(theme[name]);
  theme.isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  return theme;
}

export function onThemeChange(listener) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", listener);
}

export function readable(palette, theme) {
  // On a dark page black is replaced by the colour of its text.
  if (!theme.isDark) return palette;
  const ink = numbersOf(theme.ink);
  return palette.map((colour) => (colour.every((part) => part < 40) ? ink : colour));
}

function numbersOf(hex) {
  return [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
}
