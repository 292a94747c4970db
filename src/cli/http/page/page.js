// page.js: asks the server for its state once a second and shows it. timeline.js draws the timeline.
// Names, lines and errors come from programs of others: they are only ever set as textContent.
"use strict";

const $ = id => document.getElementById(id);
const NAME_END = 8;         // characters at the end of a worker's name that always show
const MOST_ROWS = 300;      // of clients in the page; the filter finds the others
const families = {colour: {}, family: {}};   // the colour of a family, the family of an operation
const familyOrder = op => Object.keys(families.colour).indexOf(families.family[op]);

// ---- numbers -----------------------------------------------------------------------------------

function scaled(value, step, units) {
  let unit = 0;
  for (; Math.abs(value) >= 0.9995 * step && unit < units.length - 1; unit++) value /= step;
  return (unit && value < 9.95 ? value.toFixed(1) : value.toFixed(0)) + units[unit];
}
const count = value => scaled(value, 1000, ["", "k", "M", "G", "T"]);
const bytes = value => scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
const percent = value => `${Math.round(100 * value)} %`;

function duration(seconds) {
  const s = Math.floor(seconds), two = n => String(n).padStart(2, "0");
  if (s >= 86400) return `${Math.floor(s / 86400)}d ${two(Math.floor(s / 3600) % 24)}h`;
  return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}
function time(seconds) {
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(0)} ms`;
  return seconds < 100 ? `${seconds.toFixed(1)} s` : duration(seconds);
}

// ---- the server --------------------------------------------------------------------------------

const token = {
  get: () => sessionStorage.getItem("gt-token"),
  set: value => value ? sessionStorage.setItem("gt-token", value) : sessionStorage.removeItem("gt-token"),
};

async function ask(path, method = "GET", shown = token.get()) {
  const headers = shown ? {Authorization: `Bearer ${shown}`} : {};
  const response = await fetch(path, {method, headers, cache: "no-store"});
  if (!response.ok) throw Object.assign(new Error((await response.text()).trim()), {status: response.status});
  return response;
}
const askJson = async path => (await ask(path)).json();

// `lasting`: until another message comes; otherwise until the server answers again.
function say(text, lasting = false) {
  $("message").textContent = text;
  $("message").hidden = !text;
  $("message").classList.toggle("lasting", lasting);
}

async function order(path, question) {
  if (!confirm(question)) return;
  try {
    await ask(path, "POST");
    say("");
  } catch (error) {
    say(error.message, true);
  }
}

// ---- tables ------------------------------------------------------------------------------------

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Rows are kept from one state to the next, by key: only what has changed is touched.
class Table {
  constructor(id, columns, {key = null, order = null, empty = "", pick = null} = {}) {
    this.node = $(id);
    this.body = this.node.tBodies[0];
    this.columns = columns;
    this.key = key;
    this.empty = empty;
    this.pick = pick;
    this.rows = new Map();
    this.order = order;
    for (const head of this.node.tHead.rows[0].cells)
      if (head.dataset.key) head.addEventListener("click", () => this.sortBy(head.dataset.key));
  }

  sortBy(key) {
    this.order = this.order && this.order.key === key ? {key, up: !this.order.up} : {key, up: false};
    if (this.items) this.show(this.items);
  }

  sorted(items) {
    for (const head of this.node.tHead.rows[0].cells) {
      head.classList.toggle("sorted", Boolean(this.order) && head.dataset.key === this.order.key);
      head.classList.toggle("up", Boolean(this.order) && this.order.up);
    }
    if (!this.order) return items;
    const {key, up} = this.order, sign = up ? 1 : -1;
    const compare = (a, b) => typeof a === "number" || typeof b === "number" ? (a || 0) - (b || 0)
      : String(b ?? "").localeCompare(String(a ?? ""), undefined, {numeric: true});
    return [...items].sort((a, b) => sign * compare(a[key], b[key]));
  }

  show(items) {
    this.items = items;
    const seen = new Set();
    let place = this.body.firstChild;
    this.sorted(items).forEach((item, position) => {
      const key = this.key ? this.key(item) : position;
      let row = this.rows.get(key);
      if (!row) {
        row = element("tr", this.pick ? "pick" : "");
        for (const column of this.columns) row.append(element("td", column.className));
        if (this.pick) row.addEventListener("click", event => event.target.closest("button") || this.pick(row.item));
        this.rows.set(key, row);
      }
      row.item = item;
      seen.add(key);
      this.columns.forEach((column, k) => column.show(row.cells[k], item, row));
      if (row !== place) this.body.insertBefore(row, place);
      else place = place.nextSibling;
    });
    for (const [key, row] of this.rows)
      if (!seen.has(key)) {
        row.remove();
        this.rows.delete(key);
      }
    this.showEmpty(!items.length);
  }

  showEmpty(empty) {
    if (this.note) this.note.remove();
    this.note = null;
    if (!empty || !this.empty) return;
    this.note = element("tr");
    const cell = element("td", "empty", this.empty);
    cell.colSpan = this.columns.length;
    this.note.append(cell);
    this.body.append(this.note);
  }
}

const column = (show, className = "") => ({className, show: (cell, item) => setText(cell, show(item))});

// A text that may be cut off shows all of it in a tooltip, or more.
const titled = (show, className = "", more = show) => ({className, show: (cell, item) => {
  setText(cell, show(item));
  cell.title = more(item);
}});

// A name that is too long loses its middle: many names differ at their ends only.
function showName(box, name) {
  if (!box.firstChild) box.append(element("bdi"), element("bdi"));
  box.classList.add("name");
  setText(box.firstChild, name.slice(0, -NAME_END));
  setText(box.lastChild, name.slice(-NAME_END));
}
const named = name => ({className: "", show: (cell, item) => {
  if (!cell.firstChild) cell.append(element("div"));
  showName(cell.firstChild, name(item));
  cell.title = name(item);
}});

function shareColumn(value) {
  return {className: "", show: (cell, item) => {
    if (!cell.firstChild) {
      const box = element("div", "share"), meter = element("div", "meter");
      meter.append(element("i", "own"));
      box.append(meter, element("span"));
      cell.append(box);
    }
    const [meter, text] = cell.firstChild.children;
    meter.firstChild.style.width = `${100 * Math.min(1, value(item))}%`;
    setText(text, percent(value(item)));
  }};
}

function buttonColumn(label, risky, act) {
  return {className: "admin", show: (cell, item, row) => {
    if (!cell.firstChild) {
      const button = element("button", risky ? "risky" : "");
      button.type = "button";
      button.addEventListener("click", () => act(row.item));
      cell.append(button);
    }
    setText(cell.firstChild, label(item));
  }};
}

// ---- workers -----------------------------------------------------------------------------------

function showActivity(cell, worker) {
  if (!cell.firstChild) cell.append(element("div", "meter"));
  const meter = cell.firstChild, shares = Object.entries(worker.activity);
  while (meter.children.length > shares.length) meter.lastChild.remove();
  while (meter.children.length < shares.length) meter.append(element("i"));
  shares.forEach(([family, share], k) => {
    const part = meter.children[k];
    part.style.width = `${100 * share}%`;
    part.style.background = families.colour[family] || "gray";
    part.title = `${family} ${percent(share)}`;
  });
}

function showMemory(cell, worker) {
  if (!cell.firstChild) {
    const box = element("div", "memory"), meter = element("div", "meter");
    meter.append(element("i"));
    box.append(meter, element("span"));
    cell.append(box);
  }
  const [meter, text] = cell.firstChild.children;
  const part = worker.memory_limit ? worker.memory / worker.memory_limit : 0;
  meter.firstChild.style.width = `${100 * Math.min(1, part)}%`;
  meter.firstChild.className = part > 0.9 ? "full" : "own";
  setText(text, worker.memory_limit ? `${bytes(worker.memory)} / ${bytes(worker.memory_limit)}` : bytes(worker.memory));
}

// Of the graphics card; its driver may not tell a value, which is null then.
const deviceColumn = (value, text) => ({className: "n device", show: (cell, worker) => {
  setText(cell, value(worker) == null ? "–" : text(value(worker)));
  cell.title = deviceText(worker.device);
}});

function deviceText(device) {
  if (!device) return "";
  const parts = [device.name];
  if (device.watts !== null) parts.push(`${device.watts.toFixed(0)} W`);
  if (device.memory_total !== null) parts.push(`${bytes(device.memory_used)} of ${bytes(device.memory_total)} in use`);
  return parts.join(", ");
}

// "path 3: train.py:12-20, 37 instructions"; else the line.
const placeOf = item => item.path ? `path ${item.path.number}: ${item.line}, ${item.path.instructions} instructions` : item.line;
// What a worker executes: an op, or a hot path; and where that is in the program.
const doing = worker => !worker.doing ? "–" :
  `${worker.doing.path ? `path ${worker.doing.path.number}` : worker.doing.op} ${time(worker.doing.seconds)}`;
const doingWhere = worker => `${doing(worker)}${worker.doing && worker.doing.line ? ` at ${placeOf(worker.doing)}` : ""}`;

const workers = new Table("workers", [
  {className: "", show: (cell, worker) => {
    if (!cell.firstChild) cell.append(element("span"), element("small"));
    cell.firstChild.className = worker.draining ? "draining" : "";
    showName(cell.firstChild, worker.name);
    setText(cell.lastChild, worker.draining ? "draining" : worker.engine);
    cell.title = `${worker.name}: worker ${worker.index}, engine ${worker.engine}, by ${worker.link}` +
      (worker.draining ? ", gets no new clients" : "");
  }},
  {className: "", show: showActivity},
  column(worker => percent(worker.busy), "n"),
  titled(doing, "mono now", doingWhere),
  column(worker => count(worker.ops_per_second), "n wide"),
  column(worker => bytes(worker.bytes_per_second), "n wide"),
  {className: "", show: showMemory},
  column(worker => count(worker.queue), "n"),
  column(worker => count(worker.sessions || 0), "n wide"),
  deviceColumn(worker => worker.utilisation, percent),
  deviceColumn(worker => worker.celsius, value => value.toFixed(0)),
  buttonColumn(worker => worker.draining ? "Resume" : "Drain", false, worker => worker.draining
    ? order(`api/workers/${worker.index}/resume`, `Give ${worker.name} new clients again?`)
    : order(`api/workers/${worker.index}/drain`, `Give ${worker.name} no new clients? Those that it has stay.`)),
], {key: worker => worker.index, empty: "No worker is there. Start one: gt worker"});

function showLegend(list) {
  const used = new Set(list.flatMap(worker => Object.keys(worker.activity)));
  const wanted = Object.keys(families.colour).filter(family => used.has(family));
  if ($("legend").dataset.shown === wanted.join()) return;
  $("legend").dataset.shown = wanted.join();
  $("legend").replaceChildren(...wanted.map(family => {
    const entry = element("li"), dot = element("i");
    dot.style.background = families.colour[family];
    entry.append(dot, family);
    return entry;
  }));
}

// ---- clients -----------------------------------------------------------------------------------

let chosen = null;   // the number of the client that is shown in detail

const clients = new Table("clients", [
  column(client => String(client.number), "n"),
  titled(client => client.name || "?"),
  titled(client => client.user || "?"),
  titled(client => client.host || "–", "wide"),
  named(client => client.worker || "–"),
  shareColumn(client => client.share),
  column(client => time(client.seconds || 0), "n"),
  column(client => bytes(client.bytes), "n"),
  column(client => count(client.tensors), "n wide"),
  column(client => count(client.instructions_per_second), "n wide"),
  titled(client => client.line || "–", "mono", client => placeOf(client) || "–"),
  titled(client => client.scope || "–", "wide"),
  buttonColumn(() => "Disconnect", true, client =>
    order(`api/clients/${client.number}/disconnect`, `Disconnect ${client.name}? Its tensors are lost.`)),
], {key: client => client.number, order: {key: "share", up: false}, empty: "No client is connected.", pick: choose});

function showClients(list) {
  const wanted = $("filter").value.toLowerCase();
  const matching = !wanted ? list : list.filter(client =>
    [client.name, client.user, client.host, client.line, client.scope, client.worker, client.number].some(text =>
      String(text ?? "").toLowerCase().includes(wanted)));
  const shown = clients.sorted(matching).slice(0, MOST_ROWS);
  clients.show(shown);
  for (const [number, row] of clients.rows) row.classList.toggle("chosen", number === chosen);
  const which = matching.length < list.length ? `${matching.length} of ${list.length}` : `${list.length}`;
  setText($("shown"), shown.length < matching.length ? `the first ${shown.length} of ${which}` : matching.length < list.length ? which : "");
}

// ---- one client --------------------------------------------------------------------------------

const lines = new Table("lines", [
  titled(line => line.line || "unknown", "mono"),
  column(line => count(line.tensors), "n"),
  column(line => bytes(line.bytes), "n"),
  shareColumn(line => line.share),
], {empty: "It has no tensors."});

const tensors = new Table("tensors", [
  column(tensor => tensor.dtype),
  column(tensor => tensor.shape.length ? tensor.shape.join(" × ") : "scalar", "mono"),
  column(tensor => bytes(tensor.bytes), "n"),
  titled(tensor => tensor.line || "unknown", "mono"),
  titled(tensor => tensor.place, "wide"),
], {empty: "It has no tensors."});

const paths = new Table("paths", [
  column(path => String(path.number), "n"),
  column(path => String(path.instructions), "n"),
  column(path => path.compiled ? String(path.groups.length) : "–", "n"),
  column(path => path.compiled ? time(path.seconds) : path.compiled === null ? "–" : "no", "n"),
  titled(path => path.groups.map(group => group.join(" ")).join("  |  "), "mono"),
], {key: path => path.number, empty: "No hot path was found in its stream."});

// Instructions with the same group run as one.
function grouped(path) {
  const groups = new Map();
  path.ops.forEach((op, k) => {
    const group = path.compiled ? path.group[k] : k;
    groups.set(group, [...(groups.get(group) || []), op]);
  });
  return {...path, groups: [...groups.values()]};
}

function choose(client) {
  chosen = chosen === client.number ? null : client.number;
  $("detail").hidden = chosen === null;
  setText($("detail-title"), `Client ${client.number}: ${client.name}`);
  for (const table of [lines, tensors, paths]) table.show([]);
  setText($("detail-sums"), "asking");
  for (const [number, row] of clients.rows) row.classList.toggle("chosen", number === chosen);
  if (chosen !== null) {
    $("detail").scrollIntoView({block: "nearest"});
    look();
  }
}

let looking = null;
async function look() {
  const number = chosen;
  clearTimeout(looking);
  if (number === null) return;
  let again = 1000;
  try {
    const response = await ask(`api/clients/${number}`);
    if (number !== chosen) return;
    if (response.status === 202) again = 150;
    else showDetail(await response.json());
  } catch (error) {
    setText($("detail-sums"), error.message);
  }
  if (number === chosen) looking = setTimeout(look, again);
}

function showDetail(detail) {
  if (!detail.found) {
    setText($("detail-sums"), "it has left");
    return;
  }
  setText($("detail-sums"), `${detail.user}, ${detail.tensors} tensors, ${bytes(detail.bytes)}`);
  // Other lines are there because workers spent time on them.
  const made = detail.lines.filter(line => line.tensors).sort((a, b) => b.bytes - a.bytes);
  lines.show(made.map(line => ({...line, share: detail.bytes ? line.bytes / detail.bytes : 0})));
  tensors.show(detail.largest);
  paths.show((detail.paths || []).map(grouped));
}

// ---- operations and errors ---------------------------------------------------------------------

const ops = new Table("ops", [
  column(op => op.name, "mono"),
  {className: "", show: (cell, op) => {
    if (!cell.firstChild) cell.append(element("i", "dot"), element("span"));
    cell.firstChild.style.background = families.colour[op.family] || "gray";
    setText(cell.lastChild, op.family);
  }},
  shareColumn(op => op.share),
  column(op => count(op.per_second), "n"),
  column(op => bytes(op.bytes_per_second), "n"),
], {key: op => op.name, empty: "Nothing was executed yet."});

const errors = new Table("errors", [
  column(error => time(error.seconds_ago), "n"),
  titled(error => `${error.client} ${error.program}`),
  titled(error => error.line ? error.line + (error.scope ? ` (${error.scope})` : "") : "–", "mono"),
  titled(error => error.text, "failed"),
], {empty: "None."});

// ---- every second ------------------------------------------------------------------------------

let last = {sequence: 0};

function show(state) {
  last = state;
  setText($("up"), duration(state.seconds));
  setText($("worker-count"), String(state.workers.length));
  setText($("client-count"), String(state.clients.length));
  setText($("rate"), count(state.instructions_per_second));
  setText($("cpu"), percent(state.dispatcher_cpu));
  for (const worker of state.workers) {
    worker.busy = 1 - worker.idle;
    worker.utilisation = worker.device?.utilisation;
    worker.celsius = worker.device?.celsius;
  }
  document.body.classList.toggle("devices", state.workers.some(worker => worker.device));
  workers.show(state.workers);
  showLegend(state.workers);
  showClients(state.clients);
  ops.show(state.ops.filter(op => op.share >= 0.0005));
  errors.show(state.errors);
  setText($("error-count"), state.errors.length ? String(state.errors.length) : "");
}

function live(text, className) {
  setText($("live"), text);
  $("live").className = `live ${className}`;
}

async function turn() {
  try {
    if (!families.known) Object.assign(families, await askJson("api/families"), {known: true});
    const state = await askJson("api/state");
    if (state.sequence !== last.sequence) show(state);
    timeline.add(await askJson(`api/timeline?after=${timeline.sequence}`));
    live("live", "on");
    if (!$("message").classList.contains("lasting")) say("");
  } catch (error) {
    live("no answer", "off");
    if (error.status === 401 || error.status === 403) {
      live("no access", "off");
      say(error.message);
      $("token-form").hidden = error.status !== 401;
    }
  }
  setTimeout(turn, 1000);
}

// ---- the administrator -------------------------------------------------------------------------

// A token that the server does not know is not kept: the page would be refused with it, but for its own user not without it.
async function checkToken(shown = token.get()) {
  let right = false, says = "";
  if (shown)
    try {
      await ask("api/token", "GET", shown);
      right = true;
      says = "You may disconnect clients and drain workers.";
    } catch (error) {
      says = error.status ? `Not taken: ${error.message}` : "The server does not answer.";
    }
  token.set(right ? shown : "");
  setText($("token-says"), says);
  $("token-says").className = right || !says ? "" : "failed";
  document.body.classList.toggle("administrator", right);
  $("administer").setAttribute("aria-pressed", String(right));
  return right;
}

$("administer").addEventListener("click", () => {
  $("token-form").hidden = !$("token-form").hidden;
  if (!$("token-form").hidden) $("token").focus();
});
$("token-form").addEventListener("submit", async event => {
  event.preventDefault();
  const shown = $("token").value.trim();
  if (await checkToken(shown)) $("token-form").hidden = true;
  $("token").value = "";
});
$("token-forget").addEventListener("click", () => {
  checkToken("");
});
$("filter").addEventListener("input", () => last.clients && showClients(last.clients));
$("detail-close").addEventListener("click", () => choose({number: chosen, name: ""}));

timeline.listen();
checkToken();
turn();
