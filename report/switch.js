/* The baseline switch: shows the texts, marks and columns of one baseline of the ladder. */
(() => {
  "use strict";
  const form = document.getElementById("switch");
  if (!form) return;
  const choice = form.elements.baseline;
  const configured = choice.value;

  function show() {
    for (const part of document.querySelectorAll("[data-baseline]")) {
      part.hidden = part.dataset.baseline !== choice.value;
    }
    setAddress({ baseline: choice.value === configured ? null : choice.value });
    document.dispatchEvent(new Event("baseline"));
  }

  choice.addEventListener("change", () => {
    show();
    form.querySelector("[role=status]").textContent = `Speedups are over the ${choice.selectedOptions[0].text}.`;
  });
  const wanted = new URLSearchParams(location.search).get("baseline");
  if ([...choice.options].some(({ value }) => value === wanted)) choice.value = wanted;
  show();
})();
