// Shows what Python has computed for an epsilon, and asks again while more is to come. Nothing is computed here.
const { start, labels } = window.dpsample.data("choices");
const at = (id) => document.getElementById(id);
const slider = at("epsilon"), ways = document.querySelector("#others tbody"), drawn = {};
let newest = 0, waiting;

function epsilon() {
  const given = new URLSearchParams(location.hash.slice(1)).get("epsilon");
  return labels.includes(given) ? given : start;
}

async function ask() {
  clearTimeout(waiting);
  const move = ++newest, text = labels[slider.value];
  at("value-epsilon").textContent = text;
  slider.setAttribute("aria-valuetext", text);
  let answer;
  try {
    const query = new URLSearchParams({ epsilon: text });
    const reply = await fetch(`users?${query}`, { cache: "no-store", credentials: "omit", redirect: "error" });
    answer = reply.ok ? await reply.json() : { refused: (await reply.text()).trim() };
  } catch {
    answer = { refused: "The server has stopped. Start it again with: dpsample explore" };
  }
  if (move !== newest) return;
  at("trouble").textContent = answer.refused ?? "";
  if (answer.refused === undefined) await show(answer);
  if (answer.more) waiting = setTimeout(ask, 1000);
  document.body.dataset.shown = answer.more || answer.refused ? "" : text;
}

async function show(answer) {
  for (const [name, text] of Object.entries(answer.values)) at(`fact-${name}`).textContent = text;
  for (const name of ["command", "python", "progress"]) at(name).textContent = answer[name];
  if (answer.summary && at("summary").textContent !== answer.summary) at("summary").textContent = answer.summary;
  ways.replaceChildren(...(answer.rows ?? []).map((cells) => row(cells)));
  for (const [name, { chart, heads, points }] of Object.entries(answer.charts)) {
    const numbers = JSON.stringify(points);
    if (drawn[name] === numbers) continue; // there is nothing more to draw
    drawn[name] = numbers;
    const head = document.createElement("thead"), body = document.createElement("tbody");
    head.append(row(heads, "th"));
    body.append(...points.map((cells) => row(cells)));
    at(`points-${name}`).replaceChildren(head, body);
    await window.dpsample.draw(document.querySelector(`[data-chart="chart-${name}"]`), chart);
  }
}

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

slider.value = labels.indexOf(epsilon());
slider.addEventListener("input", () => {
  history.replaceState(null, "", `#epsilon=${labels[slider.value]}`);
  ask();
});
addEventListener("hashchange", () => { slider.value = labels.indexOf(epsilon()); ask(); });
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
ask();
