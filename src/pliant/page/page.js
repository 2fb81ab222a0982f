"use strict";
(() => {
  const data = JSON.parse(document.getElementById("runs").textContent);
  const svg = document.querySelector("figure svg");
  const tip = document.getElementById("tip");
  if (!svg || !data.runs.length) return;
  // The title would pop up beside the page's own tooltip; screen readers keep it.
  const title = svg.querySelector("title");
  svg.setAttribute("aria-label", title.textContent);
  svg.removeAttribute("aria-labelledby");
  title.remove();
  const box = svg.viewBox.baseVal;
  const line = document.createElementNS(svg.namespaceURI, "line");
  line.id = "when";
  line.style.display = "none";
  svg.append(line);

  const groups = new Map();   // job name -> its shapes in all runs
  data.runs.forEach((run, r) => {
    for (const [number, job] of Object.entries(run.jobs)) {
      if (!groups.has(job.name)) groups.set(job.name, []);
      groups.get(job.name).push(
        ...svg.querySelectorAll(`[id="run${r}-job${number}"], [id^="run${r}-name${number}-"]`));
    }
  });
  const rows = [...document.querySelectorAll("tr[data-job]")];
  let lit = null;
  const light = name => {
    if (name === lit) return;
    lit = name;
    for (const shape of svg.querySelectorAll(".lit")) shape.classList.remove("lit");
    for (const row of rows) row.classList.toggle("lit", name !== null && row.dataset.job === name);
    svg.classList.toggle("dim", name !== null);
    for (const shape of groups.get(name) || []) shape.classList.add("lit");
  };

  const time = t => `${t.toFixed(data.span < 20 ? 2 : 1)} s`;
  const nodes = n => n === 1 ? "1 node" : `${n} nodes`;
  const within = (ranges, node) => ranges.some(([low, high]) => low <= node && node <= high);

  const atMark = (run, x, y, width, height) => {
    // The nearest resize within 9 pixels, if any.
    let best = null, least = 9;
    for (const mark of run.marks) {
      const dx = (mark.at / data.span) * width - x, dy = (mark.row / run.names.length) * height - y;
      const distance = Math.hypot(dx, dy);
      if (distance < least) [best, least] = [mark, distance];
    }
    return best;
  };

  const describe = (run, t, node) => {
    for (const job of Object.values(run.jobs)) {
      const piece = job.pieces.find(p => p.from <= t && t < p.to && within(p.ranges, node));
      if (piece) return {
        job: job.name, title: job.name,
        text: `on ${nodes(piece.size)}, ${piece.hosts}\nfrom ${time(piece.from)} to ${time(piece.to)}\n${job.text}`,
      };
    }
    const stay = run.held.find(h => h.from <= t && t < h.to && within(h.ranges, node));
    if (stay) return {job: stay.job || null, title: stay.title, text: `from ${time(stay.from)} to ${time(stay.to)}`};
    return {job: null, title: `${run.names[node]} is idle`, text: ""};
  };

  const hide = () => { tip.hidden = true; line.style.display = "none"; light(null); };

  svg.addEventListener("pointermove", event => {
    const area = svg.getBoundingClientRect();
    const fx = (event.clientX - area.left) / area.width, fy = (event.clientY - area.top) / area.height;
    const run = data.runs.find(({panel: [left, top, w, h]}) =>
      left <= fx && fx <= left + w && top <= fy && fy <= top + h);
    if (!run) return hide();
    const [left, top, w, h] = run.panel;
    const t = (fx - left) / w * data.span;
    const node = Math.min(run.names.length - 1, Math.floor((fy - top) / h * run.names.length));
    const mark = atMark(run, (fx - left) * area.width, (fy - top) * area.height, w * area.width, h * area.height);
    const found = mark ? {job: mark.job, title: mark.title, text: mark.text} : describe(run, t, node);
    light(found.job);
    tip.replaceChildren();
    const title = document.createElement("strong"), text = document.createElement("div");
    title.textContent = found.title;
    text.textContent = (found.text ? found.text + "\n" : "") + `here: ${run.names[node]} at ${time(t)}, ${run.name}`;
    tip.append(title, text);
    tip.hidden = false;
    const wide = tip.offsetWidth, high = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 16, innerWidth - wide - 8))}px`;
    tip.style.top = `${event.clientY + 20 + high > innerHeight ? event.clientY - high - 12 : event.clientY + 20}px`;
    const x = box.x + fx * box.width, panels = data.runs.map(each => each.panel);
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    line.setAttribute("y1", box.y + Math.min(...panels.map(p => p[1])) * box.height);
    line.setAttribute("y2", box.y + Math.max(...panels.map(p => p[1] + p[3])) * box.height);
    line.style.display = "";
  });
  svg.addEventListener("pointerleave", hide);
  for (const row of rows) {
    row.addEventListener("pointerenter", () => light(row.dataset.job));
    row.addEventListener("pointerleave", () => light(null));
  }
})();
