// The page of `rxlab serve`: draws frames (`rxlab top --json`) as they arrive. Text goes into the page as text only.
"use strict";

// Colours of the scale; heat.css has them, for light and for dark pages.
const LEVELS = 8;
const SEVERITY = { critical: "!!", warning: "!", note: "i" };
// Queues in the diagram; the table has all.
const DRAWN = 24;

const state = { live: [], recorded: null, compared: null, at: -1, paused: false, nic: "", connection: "connecting", readings: 0,
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
  // On a narrow screen each cell has its heading before it.
  const body = rows.map((row) => element("tr", null, ...columns.map(([title, cell, right]) =>
    element("td", { "data-head": title, ...(right ? { class: "number" } : {}) }, cell(row)))));
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

// As `heat::level`: the square root keeps a hotspot visible that is spread over many CPUs.
function level(value) {
  return Math.min(LEVELS - 1, Math.floor(Math.sqrt(Math.max(0, value)) * LEVELS));
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  return Array.from({ length: LEVELS }, (_, level) => style.getPropertyValue(`--l${level}`).trim());
}

const clock = (one) => one.frame.time.slice(11, 19);

// Receive time of each CPU in each interval; time goes to the right. `chosen` is framed, if it is one of them.
function drawHeat(canvas, all, chosen) {
  const last = chosen || all[all.length - 1];
  const rows = last.frame.cpus.map((row) => row.cpu), heat = colours();
  const height = Math.max(3, Math.min(18, Math.floor(420 / Math.max(1, rows.length))));
  const width = canvas.clientWidth, left = 44, axis = 16, ratio = window.devicePixelRatio || 1;
  const bottom = rows.length * height + 1;
  canvas.style.height = `${bottom + axis}px`;
  canvas.width = width * ratio;
  canvas.height = (bottom + axis) * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const step = Math.max(2, Math.min(8, (width - left) / all.length));
  const fit = Math.floor((width - left) / step);
  // The selected interval stays in view.
  const selected = all.indexOf(last);
  const first = Math.max(0, Math.min(all.length - fit, selected - fit + 1));
  const place = new Map(rows.map((cpu, row) => [cpu, row]));
  const seen = all.slice(first, first + fit);
  seen.forEach((one, column) => {
    for (const cpu of one.frame.cpus) {
      if (!place.has(cpu.cpu)) continue;
      context.fillStyle = heat[level(cpu.receive_time)];
      context.fillRect(left + column * step, place.get(cpu.cpu) * height, step, height - (height > 6 ? 1 : 0));
    }
  });
  const style = getComputedStyle(document.body);
  context.fillStyle = context.strokeStyle = style.color;
  context.font = "11px system-ui, sans-serif";
  const every = Math.ceil(12 / height);
  rows.forEach((cpu, row) => {
    if (row % every === 0) context.fillText(`CPU ${cpu}`, 0, row * height + Math.min(height - 3, 11) + (height < 12 ? 4 : 0));
  });
  // A time of day each 90 px or more.
  const apart = Math.ceil(90 / step);
  seen.forEach((one, column) => {
    if (column % apart !== 0 || left + column * step + 50 > width) return;
    context.fillRect(left + column * step, bottom, 1, 4);
    context.fillText(clock(one), left + column * step + 3, bottom + 12);
  });
  if (chosen) context.strokeRect(left + (selected - first) * step, 0, step, bottom - 1);
}

function drawScale() {
  $("scale").replaceChildren("0 %", ...colours().map((colour) => {
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
  const width = Math.max(280, $("path").clientWidth), narrow = width < 560, line = narrow ? 40 : 30;
  const signalled = [...new Set(queues.flatMap((queue) => cpus(queue.cpus)))].sort((a, b) => a - b);
  const handed = [...new Set(queues.flatMap((queue) => cpus(queue.rps_cpus.known)))].sort((a, b) => a - b);
  const rows = Math.max(queues.length, Math.min(signalled.length, 64), Math.min(handed.length, 64));
  const height = 34 + rows * line;
  // Where the boxes of each column begin and end.
  const [queueEnd, irq, irqEnd, rps] = (narrow ? [0.46, 0.54, 0.75, 0.8] : [0.37, 0.44, 0.62, 0.76]).map((part) => part * Math.min(width, 900));
  const total = Math.max(1, ...queues.map((queue) => queue.packets));
  const thick = (packets) => (1 + 7 * packets / total).toFixed(1);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": "Queues, the CPUs of their interrupts, and the CPUs that RPS hands packets to; the table below has the same" });
  const busy = new Map(frame.cpus.map((row) => [row.cpu, row.receive_time]));
  const at = (list, item) => 34 + list.indexOf(item) * line + line / 2 - 3;
  // Each of the lines of a box is a line of text.
  const box = (x, y, wide, ...lines) => {
    const tall = 8 + 14 * lines.length;
    svg.append(drawn("rect", { class: "box", x, y: y - tall / 2, width: wide, height: tall, rx: 4 }),
      ...lines.map((text, row) => drawn("text", { x: x + 6, y: y - tall / 2 + 15 + 14 * row }, text)));
  };
  const flow = (x1, y1, x2, y2, packets) => svg.append(drawn("path", { class: "flow",
    d: `M${x1} ${y1} C ${(x1 + x2) / 2} ${y1}, ${(x1 + x2) / 2} ${y2}, ${x2} ${y2}`, "stroke-width": thick(packets) }));
  const heading = (x, text) => svg.append(drawn("text", { class: "faint", x, y: 16 }, text));
  heading(0, "queue");
  heading(irq, signalled.length ? (narrow ? "IRQ on" : "interrupt on") : "no interrupt");
  heading(rps, handed.length ? "RPS to" : "RPS off");
  for (const queue of queues) {
    const taken = cpus(queue.cpus), targets = cpus(queue.rps_cpus.known);
    for (const cpu of taken) {
      flow(queueEnd, at(queues, queue), irq, at(signalled, cpu), queue.packets / taken.length);
      for (const target of targets) flow(irqEnd, at(signalled, cpu), rps, at(handed, target), queue.packets / taken.length / targets.length);
    }
    // A virtual device has no interrupt: its packets come from the CPU that sent them.
    if (!taken.length) for (const target of targets) flow(queueEnd, at(queues, queue), rps, at(handed, target), queue.packets / targets.length);
  }
  for (const queue of queues) {
    const [name, rate] = [`${queue.nic} ${queue.queue}`, `${count(queue.packets)} packets/s`];
    box(0, at(queues, queue), queueEnd, ...(narrow ? [name, rate] : [`${name}  ${rate}`]));
  }
  const name = (cpu) => `${narrow ? "" : "CPU "}${cpu}  ${percent(busy.get(cpu) || 0)}`;
  for (const cpu of signalled) box(irq, at(signalled, cpu), irqEnd - irq, name(cpu));
  for (const cpu of handed) box(rps, at(handed, cpu), irqEnd - irq, name(cpu));
  const rest = all.length > DRAWN ? [element("p", { class: "faint" }, `${all.length - DRAWN} more queues in the table`)] : [];
  $("path").replaceChildren(svg, ...rest);
}

// The title of a finding, after its interface unless it names that itself.
function headline(finding) {
  const isNamed = !finding.nic || finding.title.split(/[ /;,]/).includes(finding.nic);
  return isNamed ? finding.title : `${finding.nic}: ${finding.title}`;
}

// A plan: what it sets and why, and the command that tries it.
function drawPlan(plan, finding, open) {
  const key = `${finding} ${plan.name}`;
  const details = element("details", { "data-key": key }, element("summary", null, `plan ${plan.name}`),
    element("ul", null, ...plan.settings.map((one) => element("li", null, element("code", null, one.set),
      ` ${one.why}${one.risk ? ` (risk: ${one.risk.replace("_", " ")})` : ""}`))),
    ...(plan.notes || []).map((note) => element("p", { class: "faint" }, note)),
    ...(plan.next ? [element("p", null, "try: ", element("code", null, plan.next))] : []));
  details.open = open.has(key);
  return details;
}

function drawFindings(frame) {
  const found = frame.findings.filter((finding) => !state.nic || !finding.nic || finding.nic === state.nic);
  if (!found.length) {
    const text = frame.refused ? `no verdict: ${frame.refused}` : frame.verdict;
    $("findings").replaceChildren(element("p", { class: "faint" }, text));
    return;
  }
  const open = new Set([...$("findings").querySelectorAll("details[open]")].map((one) => one.dataset.key));
  $("findings").replaceChildren(...found.map((finding) => {
    const key = `${finding.id} ${finding.nic} ${finding.cpu}`;
    const plans = frame.plans.filter((plan) => finding.plans && finding.plans.includes(plan.name) &&
      (!finding.nic || plan.nic === finding.nic));
    const details = element("details", { "data-key": key },
      element("summary", null, finding.id),
      element("ul", null, ...finding.evidence.map((seen) => element("li", null, seen.text))),
      element("p", null, finding.why),
      ...(plans.length ? plans.map((plan) => drawPlan(plan, key, open)) : [element("p", null, finding.remedy)]));
    details.open = open.has(key);
    return element("article", { class: finding.severity },
      element("h3", null, element("span", null, `${SEVERITY[finding.severity]} ${finding.severity}`), ` ${headline(finding)}`), details);
  }));
}

// Whether a value that was set holds.
function standing(value) {
  switch (value.live) {
    case "kept": return "kept";
    case "original": return "back at its original value";
    case "drifted": return `changed to ${value.value} since`;
    case "covered": return `set again by ${value.by}`;
    case "gone": return "gone with its device";
    default: return "unknown";
  }
}

function waiting(state) {
  if (state && state.unconfirmed && state.unconfirmed.unguarded) return ", not confirmed, and no guard is running";
  if (state && state.unconfirmed) return `, reverts in ${Math.round(state.unconfirmed.seconds_left)} s unless confirmed`;
  return state === "unfinished" ? ", unfinished" : "";
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
  const values = applied.transactions.flatMap((one) => one.values.map((value) => ({ ...value, of: one })));
  const rows = values.length ? [table([
    ["setting", (row) => `${row.knob} ${row.target}`], ["was", (row) => row.original], ["set to", (row) => row.wanted],
    ["now", standing], ["by", (row) => `${row.of.what}, ${row.of.started.slice(0, 16).replace("T", " ")}`],
    ["transaction", (row) => `${row.of.id}${waiting(row.of.state)}`],
  ], values)] : [];
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

// The intervals of a trial's metrics on one axis of changes from A to B, with the margin as a band. Half and double are equally
// far from 0, as in reports. Places are percent of the width, so that labels keep their size.
function strips(trial) {
  const ends = trial.metrics.flatMap((one) => [one.low, one.mid, one.high]).filter((one) => one !== null);
  const log = (value) => Math.log1p(Math.max(-0.99, value));
  const reach = Math.max(3 * log(trial.margin), ...ends.map((end) => Math.abs(log(end)))) * 1.1;
  const place = (at) => 2 + 96 * (Math.max(-reach, Math.min(reach, at)) + reach) / (2 * reach);
  const x = (value) => `${place(log(value)).toFixed(2)}%`;
  const band = log(trial.margin);
  const ground = () => [drawn("rect", { class: "band", x: `${place(-band).toFixed(2)}%`, y: 0, width: `${(place(band) - place(-band)).toFixed(2)}%`, height: 28 }),
    drawn("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: 28 })];
  const rows = trial.metrics.map((one) => {
    const svg = drawn("svg", { role: "img", "aria-label": `${one.title} ${one.text}` }, ...ground());
    if (one.mid !== null) {
      svg.append(drawn("line", { class: "interval", x1: one.low === null ? "0%" : x(one.low), x2: one.high === null ? "100%" : x(one.high), y1: 14, y2: 14 }),
        drawn("circle", { class: "mean", cx: x(one.mid), cy: 14, r: 4 }));
    }
    const better = one.better === "higher" ? "higher is better: to the right" : "lower is better: to the left";
    return element("div", { class: "effect" }, element("div", null, element("span", null, `${one.title} ${one.text}`), element("small", null, better)), svg);
  });
  const ticks = [-reach, -reach / 2, 0, reach / 2, reach].map((at, index) => drawn("text", { class: "faint axis-text", x: `${place(at).toFixed(2)}%`, y: 13,
    "text-anchor": ["start", "middle", "middle", "middle", "end"][index] }, `${at > 0 ? "+" : ""}${(Math.expm1(at) * 100).toFixed(reach < 0.1 ? 1 : 0)} %`));
  const axis = element("div", { class: "effect" }, element("small", null, "change from A to B; band: the margin"),
    drawn("svg", { class: "axis", "aria-hidden": "true" }, ...ticks));
  return element("div", null, ...rows, axis);
}

// Two stretches of a recording: their heatmaps, and what differs.
function drawSides() {
  $("compared").hidden = !(state.recorded && state.compared);
  if ($("compared").hidden) return;
  const mean = (all, of) => all.reduce((sum, one) => sum + (of(one.frame) || 0), 0) / all.length;
  const sides = [state.compared, state.recorded].map((all) => {
    const last = all[all.length - 1], canvas = element("canvas", { class: "heat", role: "img", "aria-label": "Receive time by CPU and time" });
    const busiest = (frame) => Math.max(0, ...frame.cpus.map((row) => row.receive_time));
    const found = [...new Set(all.flatMap((one) => one.frame.findings.map((finding) => finding.id)))];
    const facts = [["hottest CPU", `${percent(mean(all, busiest))} receiving on average`],
      ["packets/s", count(mean(all, (frame) => frame.load.packets))], ["dropped/s", count(mean(all, (frame) => frame.load.dropped))],
      ["findings", found.join(", ") || "none"]];
    return [element("div", null, element("h3", null, `${last.frame.time.slice(0, 10)} ${clock(all[0])} to ${clock(last)} UTC`), canvas,
      element("dl", null, ...facts.flatMap(([name, value]) => [element("dt", null, name), element("dd", null, value)]))), canvas, all];
  });
  $("sides").replaceChildren(...sides.map(([node]) => node));
  for (const [, canvas, all] of sides) drawHeat(canvas, all, null);
}

// The worst finding, or the verdict, in one sentence.
function sentence(frame) {
  const order = ["critical", "warning", "note"];
  const worst = [...frame.findings].sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity))[0];
  if (worst && worst.severity !== "note") return headline(worst);
  return frame.refused ? `no verdict: ${frame.refused}` : frame.verdict;
}

function draw() {
  const all = intervals(), one = shown();
  if (!one) return;
  const slider = $("time");
  slider.max = all.length - 1;
  slider.value = all.indexOf(one);
  $("clock").textContent = clock(one);
  $("state").textContent = visible(sentence(one.frame));
  $("summary").textContent = one.summary;
  const nics = ["", ...one.frame.nics.map((nic) => nic.nic)];
  const select = $("nic");
  if ([...select.options].map((option) => option.value).join() !== nics.join()) {
    select.replaceChildren(...nics.map((nic) => element("option", { value: nic }, nic || "all")));
    select.value = nics.includes(state.nic) ? state.nic : "";
    state.nic = select.value;
  }
  drawHeat($("heat"), all, one);
  drawSides();
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
    const one = JSON.parse(event.data);
    if (one.host && $("host").textContent !== visible(one.host)) {
      $("host").textContent = visible(one.host);
      document.title = `${visible(one.host)} - rxlab`;
    }
    state.live.push(one);
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
  for (const slider of [$("to"), $("with")]) {
    slider.min = Math.ceil(span.first_ms / 1000) * 1000;
    slider.max = span.last_ms;
    slider.value = span.last_ms;
  }
  $("recording").hidden = false;
}

// The two minutes until the time of a slider; throws the reason if there are none. `isWanted`: false once another is chosen.
async function stretch(slider, isWanted) {
  const to = Number(slider.value);
  slider.parentNode.querySelector("output").textContent = `${new Date(to).toISOString().slice(0, 19).replace("T", " ")} UTC`;
  let answer = await fetch(`recorded?to=${to}`).catch((error) => { throw new Error(`cannot read the recording: ${error.message}`); });
  // Others read the recording too.
  for (let tries = 0; answer.headers.has("Retry-After") && tries < 20 && isWanted(); tries++) {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    answer = await fetch(`recorded?to=${to}`);
  }
  if (!answer.ok) throw new Error((await answer.text()).trim());
  const found = await answer.json();
  if (!found.length) throw new Error("nothing is recorded in these two minutes");
  return found;
}

// Shows the chosen two minutes, unless another time or source is chosen meanwhile.
async function replay() {
  const reading = ++state.readings, isWanted = () => reading === state.readings;
  $("status").textContent = "reading the recording";
  try {
    const recorded = await stretch($("to"), isWanted);
    if (!isWanted()) return;
    $("status").textContent = "recorded";
    state.recorded = recorded;
    pause(true);
  } catch (error) {
    if (isWanted()) $("status").textContent = error.message;
  }
}

// Puts other two minutes next to them.
async function compare() {
  const chosen = $("with").value, isWanted = () => $("with").value === chosen && !$("other").hidden;
  try {
    const compared = await stretch($("with"), isWanted);
    if (!isWanted()) return;
    state.compared = compared;
    drawSides();
  } catch (error) {
    if (isWanted()) $("with").parentNode.querySelector("output").textContent = error.message;
  }
}

$("pause").addEventListener("click", () => pause(!state.paused));
$("time").addEventListener("input", (event) => {
  state.at = Number(event.target.value);
  if (!state.paused) pause(true);
  draw();
});
$("source").addEventListener("change", (event) => {
  const isRecorded = event.target.value === "recorded";
  $("until").hidden = $("other").hidden = !isRecorded;
  if (isRecorded) {
    replay();
  } else {
    state.readings += 1;
    state.recorded = state.compared = null;
    drawConnection();
    pause(false);
  }
});
$("to").addEventListener("change", replay);
$("with").addEventListener("change", compare);
$("nic").addEventListener("change", (event) => { state.nic = event.target.value; draw(); });
window.addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { drawScale(); draw(); });
setInterval(drawConnection, 1000);
drawScale();
connect();
offerRecording();
