/* Meanings at hand: pointing at a kernel, a term or a number, or focusing it, shows what it is and links to
   its source, its definition, or its table, row and column. In a table, Enter focuses the first cell, and
   arrows move; Enter on a number leads to its links, and Escape back. */
(async () => {
  "use strict";
  const DELAY_MS = 200;
  const TEXTS = "figcaption, .answers dd, main section > p, main li > p, .fold > p, thead th";
  const box = document.getElementById("meaning");
  const data = JSON.parse(await inflated(document.getElementById("meanings")));
  let target = null; // of the meaning shown
  let timer = 0;

  /* --- what an element means --- */

  /* The table, row and column of a number or name; null for other elements. */
  function placeOf(part) {
    const at = part.closest("[data-at]") ?? part.closest("td")?.querySelector(":scope > [data-at]");
    if (at) return at.dataset.at.split(" / ")[0].split(" ");
    const cell = part.closest("table[data-csv] td");
    const row = cell?.parentElement.dataset.row;
    const column = cell?.closest("table").tHead.rows[0].cells[cell.cellIndex].dataset.column;
    return row && column ? [cell.closest("table").dataset.csv, row, column] : null;
  }

  function kernelOf(part) {
    const code = part.closest("code") ?? part.closest("td")?.querySelector("code");
    const [table, , column] = placeOf(part) ?? ["", "", ""];
    const isCpu = table.startsWith("cpu_") || column.startsWith("cpu_") || part.closest("#calculator-cpu-name");
    const [first, second] = isCpu ? [data.cpu, data.kernels] : [data.kernels, data.cpu];
    return first[code?.textContent] ?? second[code?.textContent];
  }

  const link = (href, text) => element("a", { href, textContent: text });

  /* A link to a source file; without the address of a repository, its path in a checkout. */
  const sourceOf = (at) => (at.includes("://") ? link(at, "Source") : link(`../${at}`, at));

  /* A link to a part of the page, which gets an id. */
  function linkTo(selector, text, id) {
    const part = document.querySelector(selector);
    if (!part) return element("span", { textContent: text });
    part.id ||= id;
    return link(`#${part.id}`, text);
  }

  /* Name, sentence and links of an element; null if it has no meaning of its own. */
  function meaningOf(part) {
    const term = part.closest(".term");
    if (term) return [term.dataset.term, data.terms[term.dataset.term], [link("#fold-glossary", "Glossary")]];
    const kernel = kernelOf(part);
    if (kernel) return [kernel[0], kernel[1], kernel[2] ? [sourceOf(kernel[2])] : []];
    const counted = part.closest("[data-count]");
    if (counted) {
      const { count: table, where } = counted.dataset;
      const rows = `Number of rows of ${table}.csv with ${where.replace(/["{}]/g, "")}`;
      return [data.tables[table], rows, [link(`#csv-${table}`, "Table")]];
    }
    const place = placeOf(part);
    if (!place || !data.tables[place[0]]) return null;
    const [table, row, column] = place;
    const within = `[data-csv="${table}"]`;
    return [
      data.columns[`${table}.${column}`] ?? data.columns[column] ?? column,
      data.tables[table],
      [
        link(`#csv-${table}`, `${table}.csv`),
        linkTo(`${within} [data-row="${row}"]`, `row ${row}`, `row-${table}-${row}`),
        linkTo(`${within} [data-column="${column}"]`, column, `column-${table}-${column}`),
      ],
    ];
  }

  /* --- showing it --- */

  function show(part) {
    const meaning = meaningOf(part);
    if (!meaning) return hide();
    const [name, sentence, links] = meaning;
    target?.removeAttribute("aria-describedby");
    target = part;
    target.setAttribute("aria-describedby", "meaning");
    box.replaceChildren(element("strong", { textContent: name }), element("span", { textContent: sentence }), ...links);
    box.hidden = false;
    const { left, bottom, top } = part.getBoundingClientRect();
    const isBelow = bottom + box.offsetHeight < innerHeight;
    box.style.left = `${scrollX + Math.max(Math.min(left, document.body.clientWidth - box.offsetWidth - 8), 4)}px`;
    box.style.top = `${scrollY + (isBelow ? bottom : top - box.offsetHeight)}px`;
  }

  function hide() {
    box.hidden = true;
    target?.removeAttribute("aria-describedby");
    target = null;
  }

  const isOutside = (part) => !box.contains(part) && !target?.contains(part);
  /* Scrolling moves the page below a pointer at rest, which must not take the meaning from the keyboard. */
  const isOfKeyboard = () => [target, ...box.querySelectorAll("a")].includes(document.activeElement);
  document.addEventListener("pointerover", ({ target: part }) => {
    clearTimeout(timer);
    if (box.contains(part) || part === target || !part.closest("main, nav")) return;
    timer = setTimeout(() => (isOfKeyboard() ? null : show(part)), DELAY_MS);
  });
  document.addEventListener("click", ({ target: part }) => {
    if (part.closest("#meaning a")) {
      const id = part.getAttribute("href").slice(1);
      document.querySelector(".shown")?.classList.remove("shown");
      document.getElementById(id)?.classList.add("shown");
      hide();
    } else if (isOutside(part)) show(part);
  });
  document.addEventListener("focusin", ({ target: part }) => {
    if (part.matches("[data-at], [data-count], .term, td, code")) show(part);
    else if (isOutside(part)) hide();
  });
  document.addEventListener("keydown", (event) => {
    const { target: part, key } = event;
    if (key === "Escape" && target) {
      if (box.contains(part)) target.focus();
      hide();
    } else if (key === "Enter" && part === target && !part.matches("a")) {
      box.querySelector("a")?.focus();
    } else if (key === "Enter" && part.matches(".table .scroll")) {
      event.preventDefault();
      move(part.querySelector("tbody td"));
    } else if (part.matches("td")) {
      const { parentElement: row, cellIndex } = part;
      const rows = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling };
      const beside = { ArrowRight: part.nextElementSibling, ArrowLeft: part.previousElementSibling };
      const next = beside[key] ?? rows[key]?.cells[cellIndex];
      if (!next) return;
      event.preventDefault();
      move(next);
    }
  });

  function move(cell) {
    cell.tabIndex = -1;
    cell.focus();
  }

  /* --- terms and numbers of texts --- */

  const ESCAPED = Object.keys(data.terms).sort((a, b) => b.length - a.length);
  const TERM = new RegExp(`(?<![\\p{L}-])(${ESCAPED.join("|")})s?(?![\\p{L}-])`, "iu");
  const byLowerCase = new Map(ESCAPED.map((term) => [term.toLowerCase(), term]));

  /* Mark the first use of each term in a section. */
  function markTerms(section) {
    const marked = new Set();
    for (const text of section.querySelectorAll(TEXTS)) {
      const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
      const nodes = [];
      while (walker.nextNode()) nodes.push(walker.currentNode);
      for (const node of nodes.filter(
        (each) => !each.parentElement.closest("a, button, code, data, strong, svg, summary, .csv"),
      )) {
        const found = TERM.exec(node.data);
        const term = found && byLowerCase.get(found[1].toLowerCase());
        if (!term || marked.has(term)) continue;
        marked.add(term);
        const rest = node.splitText(found.index);
        rest.splitText(found[0].length);
        const name = element("a", { href: "#fold-glossary", className: "term", textContent: rest.data });
        name.dataset.term = term;
        rest.replaceWith(name);
      }
    }
  }

  document.querySelectorAll("main > section").forEach(markTerms);
  for (const part of document.querySelectorAll("main :is([data-at], [data-count])")) {
    if (!part.closest("td, .fold")) part.tabIndex = 0;
  }
  document.body.dataset.meanings = "ready";
})();
