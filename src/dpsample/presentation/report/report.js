// Long lists are folded, unless they are printed.
for (const rest of document.querySelectorAll("tbody.rest")) {
  const frame = rest.closest(".scroll"), button = document.createElement("button");
  button.type = "button";
  button.className = "screen-only";
  button.textContent = `Show all ${rest.parentElement.querySelectorAll("tbody tr").length} rows`;
  button.addEventListener("click", () => {
    frame.classList.remove("folded");
    button.remove();
    frame.focus();
  });
  frame.classList.add("folded");
  frame.after(button);
}

// The search box: all keys whose text contains the query, most frequent first, a page of them at a time.
const field = document.getElementById("query");
if (field) {
  const { keys, runs, value, low, high } = window.dpsample.data("keys"); // keys only have no numbers
  const count = keys[0].length;
  const places = runs.flatMap((n, place) => new Array(n).fill(place)); // where the numbers of each key are
  const texts = keys[0].map((_, n) => keys.map((column) => column[n].toLowerCase()).join("\n"));
  const [found, matches, more] = ["found", "matches", "more"].map((id) => document.getElementById(id));
  const FIRST = 10, PAGE = 100;
  const written = (number) => number.toLocaleString("en-US");
  let hits = [], shown = 0;

  function cell(row, kind, text, style) {
    const made = row.appendChild(document.createElement(kind));
    made.className = style;
    made.textContent = text; // never HTML: keys are whatever the data had
    return made;
  }

  function show(upto) {
    const rows = document.createDocumentFragment();
    for (; shown < Math.min(upto, hits.length); shown++) {
      const row = rows.appendChild(document.createElement("tr")), n = hits[shown];
      keys.forEach((column, c) => {
        const made = cell(row, c === 0 ? "th" : "td", "", "");
        if (c === 0) made.scope = "row";
        cell(made, "span", column[n], "key");
      });
      if (value) {
        const t = places[n];
        cell(row, "td", value[t], "number");
        cell(row, "td", `${low[t]} to ${high[t]}`, "number");
      }
    }
    matches.append(rows);
    more.hidden = shown >= hits.length;
  }

  function search() {
    const query = field.value.toLowerCase();
    hits = [];
    for (let n = 0; n < count; n++) if (!query || texts[n].includes(query)) hits.push(n);
    matches.replaceChildren();
    shown = 0;
    show(query ? PAGE : FIRST);
    const first = shown < hits.length ? `, the first ${written(shown)} are shown` : "";
    found.textContent = query
      ? `${written(hits.length)} of ${written(count)} keys match${first}`
      : `${written(count)} keys${first}`;
    matches.dataset.query = field.value;
  }

  let waiting;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 80);
  });
  more.addEventListener("click", () => show(shown + PAGE));
  document.getElementById("finder").hidden = false;
  search();
}
