// Browsers start no worker from a file. There, the search runs in a hidden frame, which looks to it like a worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.ready = new Promise((resolve, reject) => {
        const inside = this.frame.contentWindow;
        inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
        const script = inside.document.createElement("script");
        script.onload = resolve;
        script.onerror = reject;
        script.src = address;
        inside.document.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
