/* Draw the reference, and give names to those of its controls that have none. */
"use strict";

SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#reference",
  presets: [SwaggerUIBundle.presets.apis],
  // Deep links would be links inside of buttons, which screen readers cannot tell apart.
  deepLinking: false,
  showExtensions: true,
  showCommonExtensions: true,
  persistAuthorization: false,
});

const NAMES = [
  ["button.close-modal", "Close"],
  ["textarea.body-param__text", "Body of the request"],
  [".parameters-col_description select", "Value"],
  [".parameters-col_description input", "Value"],
  [".content-type", "Media type"],
  [".auth-container input", "Key"],
];

function nameControls() {
  for (const [selector, name] of NAMES) {
    for (const control of document.querySelectorAll(`${selector}:not([aria-label])`)) {
      const parameter = control.closest("tr")?.dataset.paramName;
      control.setAttribute("aria-label", parameter ?? name);
    }
  }
  for (const button of document.querySelectorAll(".auth-btn-wrapper [aria-label]")) button.removeAttribute("aria-label"); // what it shows is its name
  for (const code of document.querySelectorAll("pre.microlight:not([tabindex])")) code.tabIndex = 0; // it scrolls
}

new MutationObserver(nameControls).observe(document.getElementById("reference"), { childList: true, subtree: true });
