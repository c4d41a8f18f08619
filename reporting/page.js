"use strict";
// Draw the charts of a report, move one cursor over all that share an axis (pointer, touch, keys), and write what stands under it.

const DASHES = [[], [], [], [8, 4], [2, 3], [12, 3, 2, 3], [5, 2], [1, 2]]; // from the fourth on colours need help
const HEIGHT = 230;
const END_LABELS_FROM = 440; // pixels of width, from which names stand at the ends of lines
const WHOLE = Array.from({ length: 12 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();
const plots = [];

const paint = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function write(unit, value) {
  if (value === null || value === undefined) return "–";
  const digits = { minimumFractionDigits: unit.digits, maximumFractionDigits: unit.digits };
  const text = Math.abs(value * unit.scale).toLocaleString("en-US", digits).replaceAll(",", "\u202f");
  const sign = value < 0 && /[1-9]/.test(text) ? "\u2212" : "";
  return sign + unit.prefix + text + unit.suffix;
}

// Write the figures of an axis with as many digits as their distance needs; the last has the unit.
function ticks(unit, splits) {
  const step = (splits.length > 1 ? splits[1] - splits[0] : 1) * unit.scale;
  const isWhole = (digits) => Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) < 1e-6;
  const digits = [0, 1, 2, 3, 4, 5].find(isWhole) ?? 6;
  const isShare = unit.suffix.trim() === "%";
  return splits.map((value, i) => write({ ...unit, digits, suffix: isShare || i === splits.length - 1 ? unit.suffix : "" }, value));
}

function clock(seconds) {
  const whole = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

const whenText = (chart, at) => (chart.xUnit ? write(chart.xUnit, at) : clock(at));

function stackedValues(chart) {
  const sums = new Array(chart.x.length).fill(0);
  return chart.curves.map((each) => each.values.map((value, i) => (sums[i] += value ?? 0)));
}

function seriesOf(chart, each, index) {
  const lines = chart.curves.filter((one) => one.shape !== "area");
  const isArea = each.shape === "area";
  const steps = uPlot.paths.stepped({ align: 1 });
  return {
    label: each.name,
    stroke: () => paint(each.paint),
    fill: isArea ? () => (chart.stacked ? paint(each.paint) : paint(each.paint) + "38") : undefined,
    width: isArea ? (chart.stacked ? 0 : 1) : 2,
    dash: isArea ? [] : DASHES[lines.indexOf(each) % DASHES.length],
    paths: each.shape === "line" && !isArea ? uPlot.paths.linear() : steps,
    points: { show: false },
    spanGaps: false,
  };
}

function bounds(chart, low, high) {
  const marks = chart.marks.filter((each) => !each.upright).map((each) => each.at);
  const top = chart.high ?? Math.max(high ?? 1, ...marks), bottom = chart.low ?? Math.min(low ?? 0, ...marks);
  const room = (top - bottom || 1) * 0.06;
  return [chart.low ?? bottom - room, chart.high ?? top + room];
}

// Write names beside the ends of their lines, none over another.
function labelEnds(u, chart) {
  if (chart.stacked || u.width < END_LABELS_FROM) return;
  const context = u.ctx, scale = uPlot.pxRatio, size = 12 * scale, gap = 14 * scale;
  const ends = [];
  chart.curves.forEach((each, i) => {
    if (each.shape === "area" || !u.series[i + 1].show) return;
    const last = each.values.findLastIndex((value) => value !== null);
    if (last >= 0) ends.push({ name: each.name, paint: each.paint, y: u.valToPos(each.values[last], "y", true) });
  });
  if (ends.length < 2) return;
  ends.sort((a, b) => a.y - b.y);
  for (let i = 1; i < ends.length; i++) ends[i].y = Math.max(ends[i].y, ends[i - 1].y + gap);
  const over = ends.at(-1).y - (u.bbox.top + u.bbox.height);
  if (over > 0) ends.at(-1).y -= over;
  for (let i = ends.length - 2; i >= 0; i--) ends[i].y = Math.min(ends[i].y, ends[i + 1].y - gap);
  context.save();
  context.font = `600 ${size}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const end of ends) {
    context.fillStyle = paint(end.paint);
    context.fillText(end.name, u.bbox.left + u.bbox.width + 6 * scale, end.y);
  }
  context.restore();
}

function drawMarks(u, chart) {
  const context = u.ctx, scale = uPlot.pxRatio, { left, top, width, height } = u.bbox;
  context.save();
  context.strokeStyle = context.fillStyle = paint("bad");
  context.font = `${11 * scale}px system-ui, sans-serif`;
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  context.setLineDash([2 * scale, 3 * scale]);
  context.lineWidth = 1.5 * scale;
  for (const mark of chart.marks) {
    const at = u.valToPos(mark.at, mark.upright ? "x" : "y", true);
    if (mark.upright ? at < left || at > left + width : at < top || at > top + height) continue;
    context.beginPath();
    if (mark.upright) { context.moveTo(at, top); context.lineTo(at, top + height); }
    else { context.moveTo(left, at); context.lineTo(left + width, at); }
    context.stroke();
    const room = context.measureText(mark.text).width + 5 * scale;
    if (mark.upright) context.fillText(mark.text, at + room > left + width ? at - room : at + 5 * scale, top + 12 * scale);
    else context.fillText(mark.text, left + 5 * scale, at - 5 * scale < top + 10 * scale ? at + 13 * scale : at - 5 * scale);
  }
  context.restore();
}

function axesOf(chart) {
  const common = {
    stroke: () => paint("soft"),
    font: "12px system-ui, sans-serif",
    ticks: { show: false },
    grid: { stroke: () => paint("line"), width: 1 },
  };
  const times = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, 86400];
  return [
    {
      ...common, grid: { show: false }, space: 64, size: 28,
      incrs: chart.xUnit ? undefined : times,
      values: (u, splits) => (chart.xUnit ? ticks(chart.xUnit, splits) : splits.map(clock)),
    },
    {
      ...common, space: 38, gap: 6,
      incrs: chart.unit.digits === 0 && chart.unit.scale === 1 ? WHOLE : undefined,
      size: (u, values) => 14 + 7.2 * Math.max(2, ...(values ?? []).map((text) => text.length)),
      values: (u, splits) => ticks(chart.unit, splits),
    },
  ];
}

function endRoom(chart, width) {
  if (chart.stacked || width < END_LABELS_FROM) return 12;
  const names = chart.curves.filter((each) => each.shape !== "area").map((each) => each.name.length);
  return names.length > 1 ? Math.min(130, 14 + 7.2 * Math.max(...names)) : 12;
}

function optionsOf(chart, width, legend) {
  return {
    width, height: HEIGHT,
    legend: { show: false },
    padding: [10, endRoom(chart, width), 0, 0],
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { show: !chart.stacked, size: 7, width: 0, fill: (u, i) => paint(chart.curves[i - 1].paint) },
      sync: chart.xUnit ? undefined : { key: "time", scales: ["x", null], setSeries: false },
    },
    scales: {
      x: { time: false, range: (u, low, high) => [chart.xUnit ? Math.min(0, low) : low, high === low ? low + 1 : high] },
      y: { range: (u, low, high) => bounds(chart, low, high) },
    },
    axes: axesOf(chart),
    series: [{}, ...chart.curves.map((each, i) => seriesOf(chart, each, i))],
    hooks: {
      draw: [(u) => { drawMarks(u, chart); labelEnds(u, chart); }],
      setCursor: [(u) => legend.show(u.cursor.idx)],
    },
  };
}

function swatch(chart, each) {
  const lines = chart.curves.filter((one) => one.shape !== "area");
  const name = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(name, "svg"), line = document.createElementNS(name, "path");
  svg.setAttribute("viewBox", "0 0 24 12");
  svg.setAttribute("aria-hidden", "true");
  line.setAttribute("d", each.shape === "area" ? "M2 1H22V11H2Z" : "M0 6H24");
  line.style = each.shape === "area" ? `fill:var(--${each.paint})`
    : `stroke:var(--${each.paint});stroke-width:3;stroke-dasharray:${DASHES[lines.indexOf(each) % DASHES.length].join(" ")}`;
  svg.append(line);
  return svg;
}

function add(parent, kind, text = "", className = "") {
  const made = document.createElement(kind);
  if (text) made.textContent = text;
  if (className) made.className = className;
  parent.append(made);
  return made;
}

// Names that show and hide their lines, with the values under the cursor.
function legendOf(chart, box, slider) {
  const list = document.createElement("ul");
  list.className = "legend";
  box.after(list);
  const when = add(list, "li", "", "when");
  const cells = chart.curves.map((each, i) => {
    const button = add(add(list, "li"), "button");
    button.type = "button";
    button.append(swatch(chart, each), each.name);
    const cell = add(button, "output");
    cell.setAttribute("aria-live", "off");
    button.setAttribute("aria-pressed", "true");
    if (chart.stacked || chart.curves.length === 1) button.disabled = true;
    button.onclick = () => toggle(each.name);
    return { button, cell, each };
  });
  const show = (at) => {
    const index = at ?? chart.x.length - 1;
    when.textContent = at === null || at === undefined ? "at the end" : whenText(chart, chart.x[index]);
    const said = cells.map(({ cell, each }) => `${each.name} ${(cell.textContent = write(chart.unit, each.values[index]))}`);
    slider.setAttribute("aria-valuenow", chart.x[index]);
    slider.setAttribute("aria-valuetext", `${whenText(chart, chart.x[index])}: ${said.join(", ")}`);
  };
  return { show, cells };
}

function toggle(name) {
  for (const { plot, legend, chart } of plots) {
    if (chart.stacked) continue;
    legend.cells.forEach(({ button, each }, i) => {
      if (each.name !== name || chart.curves.length === 1) return;
      const shows = !plot.series[i + 1].show;
      button.setAttribute("aria-pressed", String(shows));
      plot.setSeries(i + 1, { show: shows });
    });
  }
}

function moveTo(plot, index) {
  const at = Math.max(0, Math.min(plot.data[0].length - 1, index));
  plot.setCursor({ left: plot.valToPos(plot.data[0][at], "x"), top: 10 }, true, true);
}

function steer(box, plot) {
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageUp: 10, PageDown: -10, Home: -Infinity, End: Infinity };
  box.addEventListener("keydown", (event) => {
    if (!(event.key in steps)) return;
    event.preventDefault();
    const from = plot.cursor.idx ?? (steps[event.key] > 0 ? -1 : plot.data[0].length);
    moveTo(plot, from + steps[event.key]);
  });
  const touch = (event) => {
    const { left, width } = plot.over.getBoundingClientRect();
    const x = Math.max(0, Math.min(width, event.touches[0].clientX - left));
    plot.setCursor({ left: x, top: 10 }, true, true);
  };
  plot.over.addEventListener("touchstart", touch, { passive: true });
  plot.over.addEventListener("touchmove", touch, { passive: true });
}

// The same figures as a table, made when it is opened.
function tableOf(chart, list) {
  const details = document.createElement("details");
  list.after(details);
  add(details, "summary", "As a table");
  details.addEventListener("toggle", () => {
    if (details.querySelector("table")) return;
    const wide = add(details, "div", "", "wide"), table = add(wide, "table");
    wide.tabIndex = 0;
    wide.setAttribute("role", "region");
    wide.setAttribute("aria-label", `${chart.title}, as a table`);
    const head = add(add(table, "thead"), "tr"), body = add(table, "tbody");
    for (const name of [chart.xUnit ? chart.xUnit.name : "time", ...chart.curves.map((each) => each.name)]) add(head, "th", name).scope = "col";
    chart.x.forEach((at, i) => {
      const row = add(body, "tr");
      add(row, "th", whenText(chart, at)).scope = "row";
      for (const each of chart.curves) add(row, "td", write(chart.unit, each.values[i]));
    });
  });
}

function draw(box) {
  const chart = CHARTS[Number(box.dataset.chart)];
  const role = { role: "slider", tabindex: 0, "aria-label": `${chart.title}: cursor`, "aria-valuemin": chart.x[0], "aria-valuemax": chart.x.at(-1) };
  for (const [name, value] of Object.entries(role)) box.setAttribute(name, value);
  const legend = legendOf(chart, box, box);
  tableOf(chart, box.nextElementSibling);
  const values = chart.stacked ? stackedValues(chart) : chart.curves.map((each) => each.values);
  const shown = chart.stacked ? { ...chart, series: chart.curves } : chart;
  const options = optionsOf(shown, box.clientWidth, legend);
  if (chart.stacked) { // the tallest is drawn first, so that those below lie over it
    options.series = [{}, ...options.series.slice(1).reverse()];
    options.cursor.points = { show: false };
    values.reverse();
  }
  const plot = new uPlot(options, [chart.x, ...values], box);
  legend.show(null);
  steer(box, plot);
  plots.push({ plot, legend, chart, box });
}

function resize() {
  for (const { plot, chart, box } of plots) {
    if (box.clientWidth === plot.width) continue;
    plot.padding[1] = () => endRoom(chart, box.clientWidth);
    plot.setSize({ width: box.clientWidth, height: HEIGHT });
  }
}

// What a part of a bar is, beside the pointer.
function tips() {
  const tip = document.getElementById("tip");
  document.addEventListener("pointermove", (event) => {
    const over = event.target.closest?.("[data-tip]");
    tip.classList.toggle("on", Boolean(over));
    if (!over) return;
    tip.textContent = over.dataset.tip;
    const left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8);
    tip.style.transform = `translate(${left}px, ${Math.max(4, event.clientY - 38)}px)`;
  });
  document.addEventListener("pointerdown", (event) => document.dispatchEvent(new PointerEvent("pointermove", event)));
}

const CHARTS = JSON.parse(document.getElementById("charts").textContent);
document.querySelectorAll(".plot").forEach(draw);
tips();
addEventListener("resize", resize);
for (const media of ["(prefers-color-scheme: dark)", "print"]) {
  matchMedia(media).addEventListener("change", () => plots.forEach(({ plot }) => plot.redraw(false, false)));
}
