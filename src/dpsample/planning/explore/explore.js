// Shows what Python answers for a setting. Nothing is computed here.
const { start, labels, parts } = window.dpsample.data("choices");
const at = (id) => document.getElementById(id);
const sliders = Object.keys(labels).map(at).filter(Boolean);

// The setting, as texts. It is also in the address, after the #, so that a link or a reload restores it.
let setting;

function restore() {
  const given = [...new URLSearchParams(location.hash.slice(1))].filter(([name]) => name in start);
  if (setting && !given.length) return address(); // a link within the page
  setting = { ...start, ...Object.fromEntries(given) };
  at("how").value = setting.how;
  sliders.forEach(slide);
  moved();
}

let addressing;
function address() { // once a move has ended: browsers allow few changes a second
  clearTimeout(addressing);
  addressing = setTimeout(() => {
    const used = Object.entries(setting).filter(([name]) => at(name) && !at(name).parentElement.hidden);
    history.replaceState(null, "", `#${new URLSearchParams(used)}`);
  }, 300);
}

function slide(slider) { // to the position of its number, or the one below
  const value = Number(setting[slider.id]), numbers = labels[slider.id].map(Number);
  const position = labels[slider.id].indexOf(setting[slider.id]);
  slider.value = position >= 0 ? position : Math.max(0, numbers.findLastIndex((number) => number <= value));
}

function label() {
  for (const slider of sliders) {
    const text = setting[slider.id], place = at(`value-${slider.id}`);
    if (place.tagName === "OUTPUT") place.textContent = text;
    else place.value = text;
    slider.setAttribute("aria-valuetext", text);
    if (slider.id === "tau" || slider.id === "size") slider.parentElement.hidden = by() !== slider.id;
  }
}

const by = () => at("how").selectedOptions[0]?.dataset.by;

// An answer is requested in parts, the quick one first. Each part has one request at a time, always for the newest
// setting. While the sliders move on, only the first part is shown, and always a newer one than before.
let newest = 0;
const busy = {};

async function ask(part) {
  if (busy[part]) return;
  busy[part] = true;
  const move = newest;
  let answer;
  try {
    const query = new URLSearchParams(setting);
    const reply = await fetch(`${part}?${query}`, { cache: "no-store", credentials: "omit", redirect: "error" });
    answer = reply.ok ? await reply.json() : { refused: (await reply.text()).trim() };
  } catch {
    answer = { refused: "The server has stopped. Start it again with: dpsample explore" };
  }
  busy[part] = false;
  at("trouble").textContent = answer.refused ?? "";
  const good = answer.refused === undefined, next = parts[parts.indexOf(part) + 1];
  if (!good) { // nothing that is shown belongs to this setting
    for (const fact of document.querySelectorAll("#numbers dd")) fact.classList.add("waiting");
    for (const name of ["command", "python"]) at(name).textContent = "";
  }
  if (move !== newest) ask(part); // Python computes while this is drawn
  else if (good && next) ask(next);
  if (good && (part === parts[0] || move === newest)) {
    show[part](answer, move);
    document.body.dataset[part] = move; // which move it belongs to
  }
}

function put({ values, words = {} }) {
  for (const [name, text] of Object.entries(values)) {
    const fact = at(`fact-${name}`);
    fact.textContent = text;
    fact.classList.remove("waiting");
  }
  for (const [name, text] of Object.entries(words)) {
    const place = at(`say-${name}`);
    if (place) place.textContent = text;
  }
}

const show = {
  seen(answer, move) {
    at("say-sampling").textContent = "";
    put(answer);
    for (const late of [at("fact-total"), at("fact-selection"), others]) late.classList.add("waiting");
    at("command").textContent = answer.command;
    at("python").textContent = answer.python;
    summary = [answer.summary];
    draw(answer, move);
  },
  errors(answer) {
    put(answer);
    summary.push(answer.summary);
    clearTimeout(announcing); // one sentence when a move has ended, not one for each of its steps
    announcing = setTimeout(() => { at("summary").textContent = summary.join(" "); }, 600);
  },
  others(answer) {
    others.replaceChildren(...answer.methods.map((cells) => row(cells, "th")));
    others.classList.remove("waiting");
    at("notes").replaceChildren(
      ...answer.notes.map((text) => Object.assign(document.createElement("p"), { className: "quiet", textContent: text })),
    );
  },
};
const others = document.querySelector("#others tbody");
let summary = [], announcing;

function row(cells, first, rest = "td") {
  const line = document.createElement("tr");
  cells.forEach((text, n) => {
    const cell = line.appendChild(document.createElement(n === 0 ? first : rest));
    cell.textContent = text;
    if (cell.tagName === "TH") cell.scope = rest === "th" ? "col" : "row";
    if (n > 0) cell.className = "number";
  });
  return line;
}

// The chart: drawn anew only if its axis or its lines change, else its rows are put into it.
const frame = document.querySelector("[data-chart]");
let drawn = { shape: "" }, drawing = false, latest;

async function draw(answer, move) {
  latest = { ...answer, move };
  if (drawing) return;
  drawing = true;
  while (latest) {
    const { shape, chart, rows, described, heads, points, move } = latest;
    latest = undefined;
    const named = JSON.stringify(shape);
    if (drawn.shape !== named) {
      drawn.view?.finalize();
      drawn = { shape: named, ...(await window.dpsample.draw(frame, { ...chart, datasets: { curve: rows } })) };
    } else {
      await drawn.view.data("curve", rows).runAsync();
    }
    frame.setAttribute("aria-label", described);
    const head = document.createElement("thead"), body = document.createElement("tbody");
    head.append(row(heads, "th", "th"));
    body.append(...points.map((cells) => row(cells, "th")));
    at("points").replaceChildren(head, body);
    document.body.dataset.curve = move;
  }
  drawing = false;
}

function moved() {
  document.body.dataset.asked = ++newest;
  label();
  ask(parts[0]);
}

function change(name, text) {
  setting[name] = text;
  moved();
  address();
}

at("how").addEventListener("input", () => change("how", at("how").value));
for (const slider of sliders) {
  slider.addEventListener("input", () => change(slider.id, labels[slider.id][slider.value]));
  at(`value-${slider.id}`).addEventListener("change", (event) => {
    change(slider.id, event.target.value.trim());
    slide(slider);
  });
}
addEventListener("hashchange", restore);
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());

restore();
