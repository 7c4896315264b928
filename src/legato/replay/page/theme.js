// Light or dark: what the system says, unless somebody chose. On paper it is light.

const ROOT = document.documentElement;
const KEY = "legato-theme";

function storedTheme() {
  try {
    return localStorage.getItem(KEY) ?? "auto";
  } catch {
    return "auto"; // a file opened from a disk may have no storage
  }
}

function applyTheme(choice) {
  ROOT.dataset.theme = choice;
  for (const button of document.querySelectorAll("[data-choice]")) {
    button.setAttribute("aria-pressed", String(button.dataset.choice === choice));
  }
}

function watchTheme(redraw) {
  let chosen = storedTheme();
  const choose = (choice) => {
    chosen = choice;
    applyTheme(choice);
    redraw();
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // then it holds for this visit
    }
  };
  for (const button of document.querySelectorAll("[data-choice]")) {
    button.addEventListener("click", () => choose(button.dataset.choice));
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => { applyTheme("light"); redraw(); });
  addEventListener("afterprint", () => { applyTheme(chosen); redraw(); });
}

applyTheme(storedTheme());
