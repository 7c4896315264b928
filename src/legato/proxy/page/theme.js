// Light or dark: what the system says, unless somebody chose. Runs before anything is drawn.
"use strict";
{
  const KEY = "legato-theme";
  const root = document.documentElement;

  const apply = (choice) => {
    root.dataset.theme = choice;
    for (const button of document.querySelectorAll("[data-choice]")) {
      button.setAttribute("aria-pressed", String(button.dataset.choice === choice));
    }
  };

  const stored = () => {
    try {
      return localStorage.getItem(KEY) ?? "auto";
    } catch {
      return "auto"; // storage may be forbidden
    }
  };

  const choose = (choice) => {
    apply(choice);
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // then it holds for this visit
    }
  };

  apply(stored());
  document.addEventListener("DOMContentLoaded", () => {
    apply(stored());
    for (const button of document.querySelectorAll("[data-choice]")) {
      button.addEventListener("click", () => choose(button.dataset.choice));
    }
  });
}
