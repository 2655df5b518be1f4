/* The context bar: GPU, N, location of the data and baseline of the whole page, kept in its address.
   Other scripts read it, and follow the event "context" of the document. */
const context = (() => {
  "use strict";
  const NAMES = ["gpu", "n", "location", "baseline"];
  const form = document.getElementById("context"); // missing without a GPU
  const first = Object.fromEntries(NAMES.map((name) => [name, form?.elements[name].value]));

  const value = (name) => form?.elements[name].value;
  /* The baseline of kernels: any implementation on the CPU counts as the fastest there. */
  const ladder = () => (value("baseline")?.startsWith("cpu-") ? "fastest-cpu" : value("baseline"));
  /* The baseline on the CPU: for a kernel on the GPU, the fastest implementation there. */
  const cpu = () => (value("baseline")?.startsWith("cpu-") ? value("baseline").slice(4) : "best");
  const title = (name, id = value(name)) => form?.querySelector(`[name=${name}] [value="${CSS.escape(id)}"]`)?.text;

  function show() {
    if (!form) return;
    for (const part of document.querySelectorAll("[data-baseline]")) part.hidden = part.dataset.baseline !== ladder();
    const parts = [...document.querySelectorAll("[data-gpu]")];
    const isShown = (part) => part.dataset.gpu === value("gpu");
    if (parts.some(isShown)) for (const part of parts) part.hidden = !isShown(part);
    form.querySelector(".focus").hidden = value("gpu") === first.gpu;
    setAddress(Object.fromEntries(NAMES.map((name) => [name, value(name) === first[name] ? null : value(name)])));
    document.dispatchEvent(new Event("context"));
  }

  /* Set the values of a query; those that the page does not offer are ignored. */
  function set(query) {
    for (const name of NAMES.filter((each) => form && query.has(each))) {
      const control = form.elements[name];
      const isOffered = !control.options || [...control.options].some((option) => option.value === query.get(name));
      if (isOffered) control.value = query.get(name);
    }
    show();
  }

  form?.addEventListener("input", () => {
    show();
    const over = title("baseline");
    form.querySelector("[role=status]").textContent =
      `${title("gpu")}, N = ${value("n")}, ${title("location")}, over ${over}`;
  });
  form?.addEventListener("submit", (event) => event.preventDefault());
  set(new URLSearchParams(location.search));
  return { value, ladder, cpu, title, set };
})();
