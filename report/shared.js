/* Functions of the other scripts. */
"use strict";

/* Return the decompressed text of an element. */
async function inflated(element) {
  const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function element(tag, attributes, ...children) {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...children);
  return made;
}

/* Set values in the query of the page's address: null removes a value, a list sets several. */
function setAddress(changes, hash = location.hash) {
  const query = new URLSearchParams(location.search);
  for (const [name, values] of Object.entries(changes)) {
    query.delete(name);
    for (const value of [values ?? []].flat()) query.append(name, value);
  }
  const text = query.toString();
  history.replaceState(null, "", `${text ? `?${text}` : location.pathname}${hash}`);
}

/* Convert columns to one object per row; text columns have codes. */
function unpacked(columns) {
  const names = Object.keys(columns);
  const values = Object.values(columns).map((column) =>
    column.codes ? column.codes.map((code) => (code === null ? null : column.values[code])) : column,
  );
  return values[0].map((_, i) => Object.fromEntries(names.map((name, j) => [name, values[j][i]])));
}

const EXPONENTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/* The number that a cell shows, for sorting: "−∞", "17 180", "1.2×10⁻⁵", or the tile "128×64"; empty for a dash. */
function numberOf(text) {
  const plain = text
    .replace(/about |[\u202f\u00a0]/g, "")
    .replaceAll("−", "-")
    .replace("∞", "Infinity");
  if (plain === "–") return "";
  const [, mantissa, sign, exponent] = /^(.*)×10(⁻?)([⁰¹²³⁴-⁹]+)$/.exec(plain) ?? [];
  if (exponent) {
    const digits = [...exponent].map((digit) => EXPONENTS.indexOf(digit)).join("");
    return Number(`${mantissa}e${sign ? "-" : ""}${digits}`);
  }
  const [, rows, columns] = /^(\d+)×(\d+)$/.exec(plain) ?? [];
  return rows ? 1000 * rows + Number(columns) : parseFloat(plain);
}

/* Before a table is sorted, the cells of the column get their keys. */
document.addEventListener(
  "click",
  ({ target }) => {
    const head = target.closest(".sortable thead th");
    for (const row of head?.closest("table").tBodies[0].rows ?? []) {
      const { dataset, classList, firstChild } = row.cells[head.cellIndex];
      const text = firstChild?.textContent ?? "";
      dataset.sort ??= classList.contains("n") ? numberOf(text) : text;
    }
  },
  true,
);

/* Set by the calculator: of(GPU, host memory, variant) are predicted times in s, by N. */
const predictions = { of: null };
