// timeline.js: what the workers did, second by second: a lane for each, the height is the share of the second that it was busy,
// the colours are the families of operations.
"use strict";

const timeline = {
  sequence: 0,
  samples: [],          // the oldest first
  span: 120,            // seconds that are shown
  end: null,            // where they end, in the server's seconds; null: now
  search: "",
  LANE: 30, LABEL: 120, AXIS: 20, KEPT: 3600, LEAST: 10, MOST: 3600,

  canvas: document.getElementById("timeline"),

  add(samples) {
    if (!samples.length) return;
    if (samples[0].sequence <= this.sequence) this.samples = [];   // another server on the same port
    for (const sample of samples) this.samples.push(sample);
    this.samples.splice(0, Math.max(0, this.samples.length - this.KEPT));
    this.sequence = samples[samples.length - 1].sequence;
    this.draw();
  },

  now() {
    return this.samples.length ? this.samples[this.samples.length - 1].seconds : 0;
  },

  shownEnd() {
    return this.end === null ? this.now() : this.end;
  },

  pause(on) {
    this.end = on ? this.shownEnd() : null;
    const button = document.getElementById("pause");
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? "Paused" : "Pause";
    this.draw();
  },

  zoom(factor, at = 1) {
    const before = this.span;
    this.span = Math.min(this.MOST, Math.max(this.LEAST, this.span * factor));
    if (this.end !== null) this.end += (this.span - before) * (1 - at);
    this.draw();
  },

  move(seconds) {
    if (this.end === null) this.pause(true);
    this.end = Math.min(this.now(), this.end + seconds);
    this.draw();
  },

  matches(name, op) {
    if (!this.search) return true;
    return [name, op, families.family[op]].some(text => text && text.toLowerCase().includes(this.search));
  },

  lanes() {
    const names = new Map();
    const from = this.shownEnd() - this.span;
    for (const sample of this.samples)
      if (sample.seconds >= from)
        for (const worker of sample.workers) names.set(worker.index, worker.name);
    return [...names].sort((a, b) => a[0] - b[0]);
  },

  colours() {
    const style = getComputedStyle(document.documentElement);
    return name => style.getPropertyValue(`--${name}`).trim();
  },

  draw() {
    const lanes = this.lanes(), colour = this.colours(), {canvas, LANE, LABEL, AXIS} = this;
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.parentElement.clientWidth, height = Math.max(2, lanes.length) * LANE + AXIS;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const end = this.shownEnd(), from = end - this.span, room = width - LABEL;
    const x = seconds => LABEL + (seconds - from) / this.span * room;
    this.drawAxis(pen, colour, {from, end, x, width, height});
    const place = new Map(lanes.map(([index], k) => [index, k]));
    lanes.forEach(([, name], k) => {
      pen.fillStyle = colour("text");
      pen.fillText(this.fitted(pen, name, LABEL - 10), 0, k * LANE + LANE / 2);
      pen.fillStyle = colour("track");
      pen.fillRect(LABEL, k * LANE + 3, room, LANE - 6);
    });
    let before = null;
    for (const sample of this.samples) {
      // Where samples are missing, a sample is as long as a second, not as the gap.
      const began = before === null || sample.seconds - before > 2.5 ? sample.seconds - 1 : before;
      before = sample.seconds;
      if (sample.seconds < from || began > end) continue;
      const left = Math.max(LABEL, x(began)), right = Math.min(width, x(sample.seconds));
      for (const worker of sample.workers) {
        // A worker that answered late was measured for longer.
        const first = worker.span > 1.5 && worker.span < 10 ? Math.max(LABEL, x(sample.seconds - worker.span)) : left;
        this.drawSecond(pen, worker, Math.min(first, left), right, place.get(worker.index) * LANE);
      }
    }
    setText(document.getElementById("window"), `${Math.round(this.span)} s${this.end === null ? "" : `, until ${duration(end)}`}`);
  },

  drawSecond(pen, worker, left, right, top) {
    const {LANE} = this, most = LANE - 6;
    let y = top + LANE - 3;
    const ops = Object.entries(worker.ops).sort((a, b) => familyOrder(a[0]) - familyOrder(b[0]));
    for (const [op, share] of ops) {
      const tall = share * most;
      pen.globalAlpha = this.matches(worker.name, op) ? 1 : 0.12;
      pen.fillStyle = families.colour[families.family[op]] || "gray";
      pen.fillRect(left, y - tall, Math.max(0.5, right - left), tall);
      y -= tall;
    }
    pen.globalAlpha = 1;
  },

  drawAxis(pen, colour, {from, end, x, width, height}) {
    const step = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800].find(s => s / this.span * (width - this.LABEL) >= 90) || 3600;
    pen.fillStyle = colour("quiet");
    pen.strokeStyle = colour("line");
    for (let at = Math.ceil(from / step) * step; at <= end; at += step) {
      if (at < 0) continue;
      pen.beginPath();
      pen.moveTo(x(at), 0);
      pen.lineTo(x(at), height - this.AXIS + 4);
      pen.stroke();
      const text = duration(at);
      if (x(at) + 3 + pen.measureText(text).width <= width) pen.fillText(text, x(at) + 3, height - this.AXIS / 2);
    }
  },

  fitted(pen, text, room) {
    if (pen.measureText(text).width <= room) return text;
    const cut = kept => `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`; // the ends differ
    let kept = text.length - 1;
    while (kept > 1 && pen.measureText(cut(kept)).width > room) kept--;
    return cut(kept);
  },

  // What is under the pointer, as text.
  describe(event) {
    const box = this.canvas.getBoundingClientRect();
    const px = event.clientX - box.left, lane = this.lanes()[Math.floor((event.clientY - box.top) / this.LANE)];
    if (!lane || px < this.LABEL) return "";
    const at = this.shownEnd() - this.span + (px - this.LABEL) / (box.width - this.LABEL) * this.span;
    const sample = this.samples.find(sample => sample.seconds >= at && sample.seconds - at <= 1.5);
    const worker = sample && sample.workers.find(worker => worker.index === lane[0]);
    if (!worker) return "";
    const ops = Object.entries(worker.ops).sort((a, b) => b[1] - a[1]).slice(0, 8);
    return `${duration(sample.seconds)}  ${worker.name}: busy ${percent(worker.busy)}, queue ${count(worker.queue)}, memory ` +
      `${bytes(worker.memory)}   ${ops.map(([op, share]) => `${op} ${percent(share)}`).join(", ")}`;
  },

  listen() {
    const {canvas} = this, hover = document.getElementById("hover"), advice = hover.textContent;
    let held = null;
    canvas.addEventListener("wheel", event => {
      if (event.shiftKey) return;
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, (event.clientX - box.left - this.LABEL) / (box.width - this.LABEL));
    }, {passive: false});
    canvas.addEventListener("pointerdown", event => {
      held = event.clientX;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("pointermove", event => {
      if (held !== null && event.clientX !== held) {
        this.move((held - event.clientX) / (canvas.clientWidth - this.LABEL) * this.span);
        held = event.clientX;
      }
      setText(hover, this.describe(event) || advice);
    });
    canvas.addEventListener("pointerleave", () => setText(hover, advice));
    canvas.addEventListener("keydown", event => {
      const act = {" ": () => this.pause(this.end === null), "+": () => this.zoom(0.8), "-": () => this.zoom(1.25),
                   ArrowLeft: () => this.move(-this.span / 10), ArrowRight: () => this.move(this.span / 10)}[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
    document.getElementById("pause").addEventListener("click", () => this.pause(this.end === null));
    document.getElementById("in").addEventListener("click", () => this.zoom(0.5));
    document.getElementById("out").addEventListener("click", () => this.zoom(2));
    document.getElementById("search").addEventListener("input", event => {
      this.search = event.target.value.trim().toLowerCase();
      this.draw();
    });
    window.addEventListener("resize", () => this.draw());
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  },
};
