// @ts-check
/** Light or dark: as the system says, until the reader says otherwise. */

const KEY = "agent-pareto-theme";
const preference = matchMedia("(prefers-color-scheme: dark)");

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage may be switched off
  }
}

export const isDark = () =>
  (document.documentElement.dataset.theme ?? (preference.matches ? "dark" : "light")) === "dark";

/** @param {HTMLButtonElement} button @param {() => void} onChange */
export function wireTheme(button, onChange) {
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Switch to light colours" : "Switch to dark colours");
  };
  const chosen = stored();
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  show();
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // not kept, but shown
    }
    show();
    onChange();
  });
  preference.addEventListener("change", () => {
    show();
    onChange();
  });
}
