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

/* Set by the calculator: of(GPU, host memory, variant) are predicted times in s, by N. */
const predictions = { of: null };
