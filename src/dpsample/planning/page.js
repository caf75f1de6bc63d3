// Shows the forecast at the positions of the sliders. All of them are in this page; nothing is computed here.
const { axes, start, forecasts } = window.dpsample.data("plan");
const at = (id) => document.getElementById(id);
const controls = [...document.querySelectorAll("[data-axis]")];

// The position on each axis, as texts; those that differ from the start are in the address, so that a reload keeps them.
let position = { ...start, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) };
const joined = (where) => Object.keys(axes).map((name) => where[name]).join("|");
const found = (where) => forecasts[joined(where)];
if (!found(position)) position = { ...start };

function row(cells) {
  const line = document.createElement("tr");
  cells.forEach((text, n) => {
    const cell = line.appendChild(document.createElement(n ? "td" : "th"));
    cell.textContent = text;
    if (n) cell.className = "number";
    else cell.scope = "row";
  });
  return line;
}

function fill(id, texts) {
  at(id).replaceChildren(
    ...texts.map((textContent) => Object.assign(document.createElement("p"), { className: "quiet", textContent })),
  );
}

let announcing;
function show() {
  for (const control of controls) {
    const name = control.dataset.axis, text = position[name];
    control.value = axes[name].indexOf(text);
    if (control.type !== "range") continue; // a list says by itself what is chosen
    at(`value-${name}`).textContent = text;
    control.setAttribute("aria-valuetext", text);
  }
  const forecast = found(position);
  at("trouble").textContent = forecast ? "" : "This combination was not planned.";
  document.querySelector("main").classList.toggle("waiting", !forecast);
  if (!forecast) return;
  document.querySelectorAll("[data-fact]").forEach((place, n) => { place.textContent = forecast.facts[n]; });
  for (const name of ["data", "command", "python"]) at(name).textContent = forecast[name];
  fill("meaning", forecast.meaning);
  fill("notes", forecast.notes);
  document.querySelector("#methods tbody").replaceChildren(...forecast.rows.map((cells) => row(cells)));
  clearTimeout(announcing); // one sentence when a move has ended, not one for each of its steps
  announcing = setTimeout(() => { at("summary").textContent = forecast.summary; }, 600);
  const here = joined(position), atEveryEpsilon = joined({ ...position, epsilon: "" });
  for (const place of document.querySelectorAll("[data-at]")) {
    place.hidden = place.dataset.at !== here && place.dataset.at !== atEveryEpsilon;
  }
  document.body.dataset.shown = here;
}

for (const control of controls) {
  control.addEventListener("input", () => {
    position[control.dataset.axis] = axes[control.dataset.axis][control.value];
    const moved = Object.entries(position).filter(([name, text]) => start[name] !== text);
    history.replaceState(null, "", `#${new URLSearchParams(moved)}`);
    show();
  });
}
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());

for (const button of document.querySelectorAll("[data-copies]")) {
  const text = at(button.dataset.copies), status = button.nextElementSibling;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      status.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(text);
      status.textContent = "Selected: copy it with Ctrl-C.";
    }
    setTimeout(() => { status.textContent = ""; }, 3000);
  });
}
show();
