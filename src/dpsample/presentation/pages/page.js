// What scripts of pages share: the JSON of a block of the page.
window.dpsample = {
  data: (name) => JSON.parse(document.getElementById(name).textContent),
};
