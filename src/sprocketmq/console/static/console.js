// SPDX-License-Identifier: Apache-2.0
// The console's own script: the stream of events, charts, and what htmx leaves to the page.
(function () {
  "use strict";
  const MOST_TAILED = 300;
  let ticks = null;
  let paused = false;

  function say(text) {
    const place = document.getElementById("connection");
    if (place && place.textContent !== text) { place.textContent = text; }
  }

  // -- the stream of ticks: open while the page is visible ------------------------------------------------------------------

  function listen() {
    if (ticks || document.hidden || !document.querySelector("[data-live], [data-chart]")) { return; }
    ticks = new EventSource("/events");
    ticks.addEventListener("open", () => say(""));
    ticks.addEventListener("error", () => say("The console does not answer; this page is as it was."));
    ticks.addEventListener("tick", () => {
      if (paused) { return; }
      document.querySelectorAll("[data-live]").forEach((part) => {
        const selected = document.getSelection();
        if (!selected || selected.isCollapsed || !part.contains(selected.anchorNode)) { htmx.trigger(part, "tick"); }
      });
      document.querySelectorAll("[data-chart]").forEach(draw);
    });
  }

  function leave() {
    if (ticks) { ticks.close(); ticks = null; }
  }

  document.addEventListener("visibilitychange", () => { if (document.hidden) { leave(); } else { listen(); } });
  addEventListener("pagehide", leave);
  addEventListener("pageshow", listen);

  // -- swaps that leave the reader alone: what did not change stays, what was open stays open ---------------------------------

  const last = new WeakMap();
  document.addEventListener("htmx:beforeSwap", (event) => {
    const target = event.detail.target;
    if (!target.hasAttribute("data-live")) { return; }
    if (event.detail.xhr.status !== 200) { event.detail.shouldSwap = false; return; }
    const text = event.detail.serverResponse;
    if (last.get(target) === text) { event.detail.shouldSwap = false; return; }
    last.set(target, text);
    target.dataset.open = Array.from(target.querySelectorAll("details[open][id]"), (one) => one.id).join(" ");
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    const target = event.detail.target;
    for (const id of (target.dataset.open || "").split(" ").filter(Boolean)) {
      const found = document.getElementById(id);
      if (found) { found.open = true; }
    }
    announce();
    start(document);
  });
  document.addEventListener("htmx:responseError", (event) => {
    const target = event.detail.target;
    if (target && target.classList.contains("loading")) { target.textContent = "This could not be loaded. Load the page again."; }
  });
  document.addEventListener("htmx:sendError", () => say("The console does not answer; this page is as it was."));
  document.addEventListener("htmx:timeout", () => say("The console took too long to answer."));

  function announce() {
    document.querySelectorAll("[data-announce-from]").forEach((place) => {
      const from = document.querySelector(place.dataset.announceFrom);
      const text = from ? from.textContent.trim() : "";
      if (place.textContent !== text) { place.textContent = text; }
    });
  }

  // -- charts ---------------------------------------------------------------------------------------------------------------

  const charts = new WeakMap();
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function clock(seconds) {
    return new Date(seconds * 1000).toTimeString().slice(0, 8);
  }

  // 2026-11-24 06:12:31 GMT+1
  function moment(seconds) {
    const at = new Date(seconds * 1000);
    const zone = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(at).find((part) => part.type === "timeZoneName");
    return at.toLocaleDateString("sv") + " " + clock(seconds) + " " + zone.value;
  }

  function options(place, found) {
    const hues = [24, 150, 280, 330, 190, 50, 100, 0];
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    return {
      width: place.clientWidth - 26,
      height: 230,
      cursor: { drag: { x: true, y: false } },
      scales: { y: { range: (chart, low, high) => [0, Math.max(1, high || 0)] } },
      axes: [{ ...axis, space: 70, values: (chart, marks) => marks.map(clock) }, { ...axis, size: 64, values: (chart, marks) => marks.map((one) => Number.isInteger(one) ? one.toLocaleString("en") : "") }],
      series: [{ label: "time", value: (chart, value) => { const at = value || newest(chart, 0); return at ? moment(at) : ""; } }].concat(found.series.map((one, number) => ({
        label: one.label,
        stroke: number === 0 ? colour("--accent") : "hsl(" + hues[(number - 1) % hues.length] + " 60% " + (dark.matches ? "65%" : "42%") + ")",
        fill: number === 0 ? colour("--chart-fill") : undefined,
        width: number === 0 ? 2 : 1.2,
        points: { show: found.times.length < 3 },
        value: (chart, value, line, at) => figure(at === null || at === undefined ? newest(chart, line) : value),
      }))),
    };
  }

  // For the legend while no pointer is on the chart, also before the chart has its data.
  function newest(chart, line) {
    const figures = chart.data ? chart.data[line] : [];
    return figures[figures.length - 1];
  }

  function figure(value) {
    return value === null || value === undefined ? "unknown" : value.toLocaleString("en");
  }

  async function draw(place) {
    let found;
    try {
      const answer = await fetch(place.dataset.chart, { headers: { Accept: "application/json" } });
      if (!answer.ok) { return; }
      found = await answer.json();
    } catch (error) {
      return;
    }
    const words = document.getElementById(place.dataset.words);
    if (words && words.textContent !== found.words) { words.textContent = found.words; }
    place.hidden = found.series.length === 0;
    if (place.hidden) { return; }
    const data = [found.times.map((one) => one / 1000)].concat(found.series.map((one) => one.values));
    const shape = found.series.map((one) => one.label).join("\n") + dark.matches;
    const known = charts.get(place);
    if (known && known.shape === shape) {
      known.chart.setData(data);
      return;
    }
    if (known) { known.chart.destroy(); }
    place.textContent = "";
    charts.set(place, { shape: shape, chart: new uPlot(options(place, found), data, place) });
  }

  dark.addEventListener("change", () => document.querySelectorAll("[data-chart]").forEach(draw));
  addEventListener("resize", () => document.querySelectorAll("[data-chart]").forEach((place) => {
    const known = charts.get(place);
    if (known) { known.chart.setSize({ width: place.clientWidth - 26, height: 230 }); }
  }));

  // -- a topic's new messages ------------------------------------------------------------------------------------------------

  function tail(place) {
    const list = document.getElementById(place.getAttribute("aria-controls"));
    const status = document.getElementById(place.dataset.status);
    let source = null;

    function stop(text) {
      if (source) { source.close(); source = null; }
      place.setAttribute("aria-pressed", "false");
      place.textContent = "Follow";
      status.textContent = text;
    }

    place.addEventListener("click", () => {
      if (source) { stop("Stopped."); return; }
      place.setAttribute("aria-pressed", "true");
      place.textContent = "Stop";
      status.textContent = "Following.";
      source = new EventSource(place.dataset.tail);
      source.addEventListener("message", (event) => {
        list.prepend(line(JSON.parse(event.data)));
        while (list.children.length > MOST_TAILED) { list.lastElementChild.remove(); }
      });
      source.addEventListener("status", (event) => { status.textContent = event.data; });
      source.addEventListener("ended", (event) => stop(event.data));
      source.addEventListener("error", () => stop("The stream ended."));
    });
    addEventListener("pagehide", () => { if (source) { stop("Stopped."); } });
  }

  function line(message) {
    const item = document.createElement("li");
    const meta = document.createElement("div");
    meta.className = "meta";
    const link = document.createElement("a");
    link.href = message.href;
    link.textContent = message.place;
    meta.append(link);
    for (const text of message.marks) {
      const mark = document.createElement("span");
      mark.textContent = text;
      meta.append(mark);
    }
    const body = document.createElement("div");
    body.className = "mono";
    body.textContent = message.body;
    item.append(meta, body);
    return item;
  }

  // -- begin ----------------------------------------------------------------------------------------------------------------

  function once(selector, begin) {
    document.querySelectorAll(selector).forEach((place) => {
      if (!place.dataset.begun) { place.dataset.begun = "1"; begin(place); }
    });
  }

  function start() {
    once("[data-chart]", draw);
    once("[data-tail]", tail);
    once("[data-select-all]", (place) => place.addEventListener("change", () => {
      document.querySelectorAll(place.dataset.selectAll).forEach((one) => { one.checked = place.checked; });
    }));
  }

  document.addEventListener("click", async (event) => {
    const place = event.target.closest("[data-copy]");
    if (!place) { return; }
    try {
      await navigator.clipboard.writeText(place.dataset.copy);
      place.textContent = "Copied";
    } catch (error) {  // only over TLS or on this machine
      place.textContent = "This browser does not allow it";
    }
  });

  const pause = document.getElementById("pause");
  if (pause) { pause.addEventListener("change", () => { paused = pause.checked; }); }
  start();
  announce();
  listen();
})();
