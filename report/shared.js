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

/* Set by the calculator: at(GPU, host memory, variant, N) is a predicted time in s, or null. */
const predictions = { at: null };
