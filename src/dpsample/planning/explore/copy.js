// Copies what stands beside a button, or selects it where that is not allowed.
for (const button of document.querySelectorAll("[data-copies]")) {
  const text = document.getElementById(button.dataset.copies), status = button.nextElementSibling;
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
