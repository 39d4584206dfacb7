// A page opened from a disk (file:) may not start a worker, so the search of the offline edition
// gets this stand-in: the worker's script runs in a hidden frame. Elsewhere nothing changes.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.url = new URL(url, location).href
      this.ready = new Promise((resolve) => {
        document.readyState === "loading"
          ? addEventListener("DOMContentLoaded", () => this.start(resolve))
          : this.start(resolve)
      })
    }

    start(resolve) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inner = this.frame.contentWindow
      inner.postMessage = (data) => this.receive(data)
      inner.importScripts = (...urls) =>
        urls.reduce((before, each) => before.then(() => load(inner, new URL(each, this.url))), Promise.resolve())
      load(inner, this.url).then(resolve)
    }

    receive(data) {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      if (this.onmessage) this.onmessage(event)
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame?.remove()
    }
  }

  const load = (inner, url) =>
    new Promise((resolve, reject) => {
      const script = inner.document.createElement("script")
      script.src = url
      script.onload = resolve
      script.onerror = reject
      inner.document.body.append(script)
    })
}
