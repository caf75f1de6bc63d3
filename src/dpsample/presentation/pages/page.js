// Draws charts. `dpsample.draw(element, specification)` is for scripts whose charts change.
const options = {
  mode: "vega-lite",
  renderer: "svg",
  actions: false,
  defaultStyle: false,
  ast: true, // expressions are interpreted, not compiled: the content policy allows no eval
  tooltip: { disableDefaultStyle: true },
};

async function draw(element, specification) {
  const drawn = await window.vegaEmbed(element, specification, options);
  element.querySelector("svg").setAttribute("aria-hidden", "true"); // its place has a label in words, and a table
  element.dataset.drawn = "true";
  return drawn;
}

const charts = [...document.querySelectorAll("[data-chart]")].filter((place) =>
  document.getElementById(place.dataset.chart),
);
window.dpsample = {
  draw,
  data: (name) => JSON.parse(document.getElementById(name).textContent),
};
// what the page is for comes first; then one chart after another
for (const place of charts) {
  setTimeout(() => draw(place, window.dpsample.data(place.dataset.chart)));
}
