// The page of `rxlab serve`: draws frames (`rxlab top --json`) as they arrive. Text goes into the page as text only.
"use strict";

// Dark blue over grey to yellow, each brighter than the one before, as in `rxlab top`.
const HEAT = ["#1c1c1c", "#00005f", "#5f5f87", "#878787", "#afaf87", "#d7af5f", "#ffd700", "#ffff00"];
const SEVERITY = { critical: "!!", warning: "!", note: "i" };
// Queues in the diagram; the table has all.
const DRAWN = 24;

const state = { live: [], recorded: null, at: -1, paused: false, nic: "", connection: "connecting", readings: 0,
  // When the latest interval arrived, and the seconds between it and the one before.
  arrived: 0, pause: 0 };
const $ = (id) => document.getElementById(id);

// Text of others as it cannot be mistaken for another: the rule of `crates/base/src/grammar/terminal.rs`.
function visible(text) {
  return String(text).replace(/\\+(?=u\{|[^ -~\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u00ff])/gu, "$&$&")
    .replace(/[^ -~\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u00ff]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

const shownAs = (child) => child instanceof Node ? child : visible(child);

function element(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  node.append(...children.map(shownAs));
  return node;
}

function drawn(name, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.map(shownAs));
  return node;
}

function count(value) {
  return value === null || value === undefined ? "-" : Math.round(value).toLocaleString("en-US");
}

function percent(value) {
  return `${(value * 100).toFixed(value < 0.0995 ? 1 : 0)} %`;
}

// A fact: the value, or why there is none.
function fact(value, none) {
  if (value && typeof value === "object" && "known" in value) {
    return value.known === "" || value.known === 0 ? none : String(value.known);
  }
  return "unknown";
}

function cpus(text) {
  const all = [];
  for (const part of (text || "").split(",").filter(Boolean)) {
    const [first, last] = part.split("-").map(Number);
    for (let cpu = first; cpu <= (last === undefined ? first : last); cpu++) all.push(cpu);
  }
  return all;
}

function table(columns, rows) {
  const head = element("tr", null, ...columns.map(([title, , right]) =>
    element("th", right ? { class: "number", scope: "col" } : { scope: "col" }, title)));
  const body = rows.map((row) => element("tr", null, ...columns.map(([, cell, right]) =>
    element("td", right ? { class: "number" } : null, cell(row)))));
  return element("table", null, element("thead", null, head), element("tbody", null, ...body));
}

// The intervals of the chosen source.
function intervals() {
  return state.recorded || state.live;
}

function shown() {
  const all = intervals();
  return all[state.at < 0 ? all.length - 1 : Math.min(state.at, all.length - 1)];
}

function level(value) {
  return Math.max(0, Math.min(HEAT.length - 1, Math.ceil(value * (HEAT.length - 1) - 1e-9)));
}

function drawHeat() {
  const canvas = $("heat"), all = intervals(), last = shown();
  const rows = last.frame.cpus.map((row) => row.cpu);
  const height = Math.max(3, Math.min(18, Math.floor(420 / Math.max(1, rows.length))));
  const width = canvas.clientWidth, left = 44, ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${rows.length * height + 1}px`;
  canvas.width = width * ratio;
  canvas.height = (rows.length * height + 1) * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const step = Math.max(2, Math.min(8, (width - left) / all.length));
  const fit = Math.floor((width - left) / step);
  // The selected interval stays in view.
  const chosen = all.indexOf(last);
  const first = Math.max(0, Math.min(all.length - fit, chosen - fit + 1));
  const place = new Map(rows.map((cpu, row) => [cpu, row]));
  all.slice(first, first + fit).forEach((one, column) => {
    for (const cpu of one.frame.cpus) {
      if (!place.has(cpu.cpu)) continue;
      context.fillStyle = HEAT[level(cpu.receive_time)];
      context.fillRect(left + column * step, place.get(cpu.cpu) * height, step, height - (height > 6 ? 1 : 0));
    }
  });
  const style = getComputedStyle(document.body);
  context.fillStyle = style.color;
  context.font = "11px system-ui, sans-serif";
  const every = Math.ceil(12 / height);
  rows.forEach((cpu, row) => {
    if (row % every === 0) context.fillText(`CPU ${cpu}`, 0, row * height + Math.min(height - 3, 11) + (height < 12 ? 4 : 0));
  });
  context.strokeStyle = style.color;
  context.strokeRect(left + (chosen - first) * step, 0, step, rows.length * height);
}

function drawScale() {
  $("scale").replaceChildren("0 %", ...HEAT.map((colour) => {
    const box = element("i");
    box.style.background = colour;
    return box;
  }), "100 % of a CPU");
}

function wanted(row) {
  return !state.nic || row.nic === state.nic;
}

function drawPath(frame) {
  const all = frame.queues.filter(wanted).sort((a, b) => b.packets - a.packets);
  const queues = all.slice(0, DRAWN);
  if (!queues.length) {
    $("path").replaceChildren(element("p", { class: "faint" }, "no receive queues"));
    return;
  }
  const line = 30;
  const signalled = [...new Set(queues.flatMap((queue) => cpus(queue.cpus)))].sort((a, b) => a - b);
  const handed = [...new Set(queues.flatMap((queue) => cpus(queue.rps_cpus.known)))].sort((a, b) => a - b);
  const rows = Math.max(queues.length, Math.min(signalled.length, 64), Math.min(handed.length, 64));
  const height = 34 + rows * line, width = 760;
  const total = Math.max(1, ...queues.map((queue) => queue.packets));
  const thick = (packets) => (1 + 7 * packets / total).toFixed(1);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": "Queues, the CPUs of their interrupts, and the CPUs that RPS hands packets to; the table below has the same" });
  const busy = new Map(frame.cpus.map((row) => [row.cpu, row.receive_time]));
  const at = (list, item) => 34 + list.indexOf(item) * line + line / 2 - 3;
  const box = (x, y, wide, text) => svg.append(
    drawn("rect", { class: "box", x, y: y - 11, width: wide, height: 22, rx: 4 }),
    drawn("text", { x: x + 8, y: y + 5 }, text));
  const flow = (x1, y1, x2, y2, packets) => svg.append(drawn("path", { class: "flow",
    d: `M${x1} ${y1} C ${(x1 + x2) / 2} ${y1}, ${(x1 + x2) / 2} ${y2}, ${x2} ${y2}`, "stroke-width": thick(packets) }));
  const heading = (x, text) => svg.append(drawn("text", { class: "faint", x, y: 16 }, text));
  heading(0, "queue");
  heading(330, signalled.length ? "interrupt on" : "no interrupt");
  heading(570, handed.length ? "RPS to" : "RPS off");
  for (const queue of queues) {
    const irq = cpus(queue.cpus), rps = cpus(queue.rps_cpus.known);
    for (const cpu of irq) {
      flow(280, at(queues, queue), 330, at(signalled, cpu), queue.packets / irq.length);
      for (const target of rps) flow(450, at(signalled, cpu), 570, at(handed, target), queue.packets / irq.length / rps.length);
    }
    // A virtual device has no interrupt: its packets come from the CPU that sent them.
    if (!irq.length) for (const target of rps) flow(280, at(queues, queue), 570, at(handed, target), queue.packets / rps.length);
  }
  for (const queue of queues) box(0, at(queues, queue), 280, `${queue.nic} ${queue.queue}  ${count(queue.packets)} packets/s`);
  const name = (cpu) => `CPU ${cpu}  ${percent(busy.get(cpu) || 0)}`;
  for (const cpu of signalled) box(330, at(signalled, cpu), 120, name(cpu));
  for (const cpu of handed) box(570, at(handed, cpu), 120, name(cpu));
  const rest = all.length > DRAWN ? [element("p", { class: "faint" }, `${all.length - DRAWN} more queues in the table`)] : [];
  $("path").replaceChildren(svg, ...rest);
}

function drawFindings(frame) {
  const found = frame.findings.filter((finding) => !state.nic || !finding.nic || finding.nic === state.nic);
  if (!found.length) {
    const text = frame.refused ? `no verdict: ${frame.refused}` : "nothing to do";
    $("findings").replaceChildren(element("p", { class: "faint" }, text));
    return;
  }
  const open = new Set([...$("findings").querySelectorAll("details[open]")].map((one) => one.dataset.key));
  $("findings").replaceChildren(...found.map((finding) => {
    const nic = finding.nic ? `${finding.nic}: ` : "";
    const key = `${finding.id} ${nic}${finding.cpu}`;
    const plans = frame.plans.filter((plan) => finding.plans && finding.plans.includes(plan.name) &&
      (!finding.nic || plan.nic === finding.nic));
    const details = element("details", { "data-key": key },
      element("summary", null, finding.id),
      element("ul", null, ...finding.evidence.map((seen) => element("li", null, seen.text))),
      element("p", null, finding.why),
      ...(plans.length ? plans.map((plan) => element("p", null, `plan ${plan.name}`,
        ...(plan.next ? [": ", element("code", null, plan.next)] : []))) : [element("p", null, finding.remedy)]));
    details.open = open.has(key);
    return element("article", { class: finding.severity },
      element("h3", null, element("span", null, `${SEVERITY[finding.severity]} ${finding.severity}`), ` ${nic}${finding.title}`), details);
  }));
}

function drawTables(frame) {
  $("cpus").replaceChildren(table([
    ["CPU", (row) => String(row.cpu), true], ["receive time", (row) => percent(row.receive_time), true],
    ["busy", (row) => percent(row.busy), true], ["packets/s", (row) => count(row.packets), true],
    ["dropped/s", (row) => count(row.dropped), true], ["time_squeeze/s", (row) => count(row.time_squeeze), true],
    ["RPS IPIs/s", (row) => count(row.rps_ipis), true], ["steal", (row) => percent(row.steal), true],
  ], frame.cpus));
  $("queues").replaceChildren(table([
    ["queue", (row) => `${row.nic} ${row.queue}`], ["packets/s", (row) => `${row.is_counted ? "" : "about "}${count(row.packets)}`, true],
    ["dropped/s", (row) => count(row.dropped), true], ["interrupts/s", (row) => count(row.interrupts), true],
    ["interrupt on CPU", (row) => row.cpus || "unknown"], ["RPS to CPU", (row) => fact(row.rps_cpus, "off")],
    ["RFS entries", (row) => fact(row.rps_flow_cnt, "off")],
  ], frame.queues.filter(wanted)));
  const programs = frame.programs.known;
  $("programs").replaceChildren(programs ? table([
    ["pid", (row) => String(row.pid), true], ["program", (row) => row.command], ["CPU", (row) => percent(row.cpu), true],
    ["ran on CPU", (row) => fact(row.ran_on, "-")],
    ["receive time there", (row) => row.receive_time === null ? "-" : percent(row.receive_time), true],
  ], programs) : element("p", { class: "faint" }, "unknown"));
  const applied = frame.applied;
  const rows = applied.transactions.length ? [table([
    ["transaction", (row) => row.id], ["state", (row) => row.state.state || String(row.state)], ["what", (row) => row.what],
  ], applied.transactions)] : [];
  if (!rows.length && !applied.unknown.length) rows.push(element("p", { class: "faint" }, "nothing is applied"));
  $("applied").replaceChildren(...rows, ...applied.unknown.map((why) => element("p", null, why)));
}

function drawTrials(trials) {
  if (!trials.length) {
    $("trials").replaceChildren(element("p", { class: "faint" }, "no trials yet"));
    return;
  }
  $("trials").replaceChildren(...trials.map((trial) => element("article", { class: "note" },
    element("h3", null, `${trial.id}: ${trial.headline}`),
    element("p", { class: "faint" }, trial.progress),
    ...(trial.metrics.length ? [strips(trial)] : []))));
}

// The intervals of a trial's metrics, with the margin as a band.
function strips(trial) {
  const labels = trial.metrics.map((one) => `${one.title} ${one.text}`);
  // The plot begins after the longest label: 7 px are a wide character of the font.
  const left = 16 + 7 * Math.max(...labels.map((label) => label.length)), width = left + 400, line = 28;
  const ends = trial.metrics.flatMap((one) => [one.low, one.mid, one.high]).filter((one) => one !== null);
  const reach = Math.min(1, Math.max(3 * trial.margin, ...ends.map(Math.abs)) * 1.1);
  const x = (value) => left + (width - left - 10) * (Math.max(-reach, Math.min(reach, value)) + reach) / (2 * reach);
  const height = trial.metrics.length * line + 8;
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": labels.join("; ") },
    drawn("rect", { class: "band", x: x(-trial.margin), y: 0, width: x(trial.margin) - x(-trial.margin), height }),
    drawn("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: height }));
  trial.metrics.forEach((one, row) => {
    const y = row * line + 16;
    svg.append(drawn("text", { x: 0, y: y + 4 }, labels[row]));
    if (one.mid === null) return;
    svg.append(drawn("line", { class: "interval", x1: x(one.low === null ? -reach : one.low), x2: x(one.high === null ? reach : one.high), y1: y, y2: y }),
      drawn("circle", { class: "mean", cx: x(one.mid), cy: y, r: 4 }));
  });
  return element("div", { class: "scroll" }, svg);
}

function draw() {
  const all = intervals(), one = shown();
  if (!one) return;
  const slider = $("time");
  slider.max = all.length - 1;
  slider.value = all.indexOf(one);
  $("clock").textContent = one.frame.time.slice(11, 19);
  $("summary").textContent = one.summary;
  const nics = ["", ...one.frame.nics.map((nic) => nic.nic)];
  const select = $("nic");
  if ([...select.options].map((option) => option.value).join() !== nics.join()) {
    select.replaceChildren(...nics.map((nic) => element("option", { value: nic }, nic || "all")));
    select.value = nics.includes(state.nic) ? state.nic : "";
    state.nic = select.value;
  }
  drawHeat();
  drawFindings(one.frame);
  drawPath(one.frame);
  drawTables(one.frame);
}

function pause(paused) {
  state.paused = paused;
  state.at = paused ? intervals().indexOf(shown()) : -1;
  $("pause").textContent = paused ? "Continue" : "Pause";
  $("pause").setAttribute("aria-pressed", String(paused));
  draw();
}

// The state of the connection, where the live intervals are chosen. A connection without new intervals is not live.
function drawConnection() {
  if ($("source").value === "recorded") return;
  const silent = (performance.now() - state.arrived) / 1000;
  const isLate = state.connection === "live" && silent > Math.max(10, 3 * state.pause);
  const text = isLate ? "no new intervals" : state.connection;
  // Screen readers read out what is written there.
  if ($("status").textContent !== text) $("status").textContent = text;
}

function connect() {
  const events = new EventSource("events");
  const is = (connection) => { state.connection = connection; drawConnection(); };
  events.onopen = () => { state.arrived = performance.now(); is("live"); };
  events.onerror = () => {
    is("connection lost; trying again");
    // After a refusal the browser does not try again by itself.
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 5000);
  };
  events.addEventListener("frame", (event) => {
    const now = performance.now();
    state.pause = (now - state.arrived) / 1000;
    state.arrived = now;
    state.live.push(JSON.parse(event.data));
    // As many as the server keeps.
    if (state.live.length > 600) {
      state.live.shift();
      if (!state.recorded && state.at > 0) state.at -= 1;
    }
    if (!state.recorded) draw();
    drawConnection();
  });
  events.addEventListener("trials", (event) => drawTrials(JSON.parse(event.data)));
}

// Shows the choice of source if there is a recording.
async function offerRecording() {
  const answer = await fetch("recording");
  const span = answer.ok ? await answer.json() : null;
  if (!span) return;
  const to = $("to");
  to.min = Math.ceil(span.first_ms / 1000) * 1000;
  to.max = span.last_ms;
  to.value = span.last_ms;
  $("recording").hidden = false;
}

// Shows the chosen two minutes, unless another time or source is chosen meanwhile.
async function replay() {
  const reading = ++state.readings;
  const to = Number($("to").value);
  $("until").querySelector("output").textContent = `${new Date(to).toISOString().slice(0, 19).replace("T", " ")} UTC`;
  $("status").textContent = "reading the recording";
  let recorded = [], none = "nothing is recorded in these two minutes";
  try {
    let answer = await fetch(`recorded?to=${to}`);
    // Others read the recording too.
    for (let tries = 0; answer.headers.has("Retry-After") && tries < 20 && reading === state.readings; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 1000));
      answer = await fetch(`recorded?to=${to}`);
    }
    if (answer.ok) recorded = await answer.json();
    else none = (await answer.text()).trim();
  } catch (error) {
    none = `cannot read the recording: ${error.message}`;
  }
  if (reading !== state.readings) return;
  $("status").textContent = recorded.length ? "recorded" : none;
  if (!recorded.length) return;
  state.recorded = recorded;
  pause(true);
}

$("pause").addEventListener("click", () => pause(!state.paused));
$("time").addEventListener("input", (event) => {
  state.at = Number(event.target.value);
  if (!state.paused) pause(true);
  draw();
});
$("source").addEventListener("change", (event) => {
  const isRecorded = event.target.value === "recorded";
  $("until").hidden = !isRecorded;
  if (isRecorded) {
    replay();
  } else {
    state.readings += 1;
    state.recorded = null;
    drawConnection();
    pause(false);
  }
});
$("to").addEventListener("change", replay);
$("nic").addEventListener("change", (event) => { state.nic = event.target.value; draw(); });
window.addEventListener("resize", draw);
setInterval(drawConnection, 1000);
drawScale();
connect();
offerRecording();
