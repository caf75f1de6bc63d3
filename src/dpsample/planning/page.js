// Shows the forecast at the positions of the sliders. All of them are in this page; nothing is computed here.
const { axes, start, charts, forecasts } = window.dpsample.data("plan");
const at = (id) => document.getElementById(id);
const controls = [...document.querySelectorAll("[data-axis]")];
const drawn = {};

// The position on each axis, as texts; those that differ from the start are in the address, so that a reload keeps them.
let position = { ...start, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) };
const found = (where) => forecasts[Object.keys(axes).map((name) => where[name]).join("|")];
if (!found(position)) position = { ...start };

function row(cells, rest = "td") {
  const line = document.createElement("tr");
  cells.forEach((text, n) => {
    const cell = line.appendChild(document.createElement(n ? rest : "th"));
    cell.textContent = text;
    if (cell.tagName === "TH") cell.scope = rest === "th" ? "col" : "row";
    if (n) cell.className = "number";
  });
  return line;
}

function fill(id, texts) {
  at(id).replaceChildren(
    ...texts.map((textContent) => Object.assign(document.createElement("p"), { className: "quiet", textContent })),
  );
}

let announcing, newest = 0;
async function show() {
  const move = ++newest;
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
  for (const name of Object.keys(charts)) {
    if (move === newest) await draw(name, forecast);
  }
  if (move !== newest) return;
  document.body.dataset.shown = Object.values(position).join("|");
}

// A chart by epsilon has a point of each forecast that differs in epsilon alone.
async function draw(name, forecast) {
  const { x: across, y: up, by_epsilon, specification } = charts[name];
  const joined = by_epsilon
    ? axes.epsilon.map((epsilon) => found({ ...position, epsilon })).filter(Boolean)
    : [forecast];
  const rows = joined.flatMap(({ lines }) =>
    Object.entries(lines[name]).flatMap(([line, points]) =>
      points.map(([x, y]) => ({ line, x, y, method: line, [across]: `${x}`, [up]: y.toLocaleString("en") })),
    ),
  );
  tabulate(name, across, up, rows);
  const place = document.querySelector(`[data-chart="chart-${name}"]`);
  drawn[name] ??= window.dpsample.draw(place, { ...specification, datasets: { rows } });
  await (await drawn[name]).view.data("rows", rows).runAsync();
}

function tabulate(name, across, up, rows) {
  const head = document.createElement("thead"), body = document.createElement("tbody");
  const lines = [...new Set(rows.map((row) => row.line))];
  const cells = new Map(rows.map(({ x }) => [x, [x.toLocaleString("en"), ...lines.map(() => "-")]]));
  for (const point of rows) cells.get(point.x)[1 + lines.indexOf(point.line)] = point[up];
  head.append(row([across, ...lines], "th"));
  body.append(...[...cells.values()].map((line) => row(line)));
  at(`points-${name}`).replaceChildren(head, body);
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
