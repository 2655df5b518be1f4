/* The explorer: draw the chosen configurations as a Vega-Lite chart and list them in a table. */
(() => {
  "use strict";
  const section = document.getElementById("explorer");
  if (!section) return;
  const specText = document.getElementById("explorer-spec").textContent;
  const [form, chart, status, list] = ["form", "chart", "status", "list"].map((part) =>
    document.getElementById(`explorer-${part}`),
  );
  const NARROW_PX = 640;
  // With several GPUs, the shape is the GPU and the colour is the kernel.
  const GPU_SHAPES = [
    ...["circle", "square", "triangle-up", "diamond", "cross"],
    ...["triangle-down", "triangle-left", "triangle-right"],
  ];
  let data, rows, titles; // unpacked by start()
  const LEAST_TILE = 1000; // block sizes from here are tiles: 128256 is 128×256
  let shown = []; // the points of the chart
  let brushed = {}; // range of each axis that the brush covers
  let drawn = null; // the result of vega-embed
  let drawing = null; // promise of the latest chart

  /* Convert columns to one object per row; text columns have codes. */
  function unpack(columns) {
    const names = Object.keys(columns);
    const values = Object.values(columns).map((column) =>
      column.codes ? column.codes.map((code) => (code === null ? null : column.values[code])) : column,
    );
    return values[0].map((_, i) => Object.fromEntries(names.map((name, j) => [name, values[j][i]])));
  }

  const blockText = (block) =>
    block < LEAST_TILE ? String(block) : `${Math.floor(block / LEAST_TILE)}×${block % LEAST_TILE}`;

  /* --- controls --- */

  function checkbox(name, value, text, isChosen) {
    const box = element("input", { type: "checkbox", name, value, defaultChecked: isChosen });
    return element("label", {}, box, ` ${text}`);
  }

  function fillControls() {
    const distinct = (column) =>
      [...new Set(rows.map((row) => row[column]))].filter((v) => v !== null).sort((a, b) => a - b);
    const sizes = distinct("n");
    form.elements.block_size.append(...distinct("block_size").map((b) => new Option(blockText(b), b)));
    form.elements.n.append(
      ...sizes.map((n) => new Option(n, n, n === sizes.at(-1), n === sizes.at(-1))),
    );
    document
      .getElementById("explorer-gpus")
      .append(...data.gpus.map((g) => checkbox("gpu", g.label, g.title, g.label === data.focus)));
    for (const group of new Set(data.kernels.map((kernel) => kernel.group))) {
      const kernels = data.kernels.filter((kernel) => kernel.group === group);
      const whole = checkbox("group", group, group, false);
      const boxes = kernels.map((k) => checkbox("kernel", k.name, k.name, k.chosen));
      document
        .getElementById("explorer-kernels")
        .append(element("fieldset", {}, element("legend", {}, whole), ...boxes));
    }
  }

  /* A group's box is checked if all of its kernels are; changing it checks or clears all of them. */
  function updateGroups(changed) {
    for (const group of form.querySelectorAll("[name=group]")) {
      const boxes = [...group.closest("fieldset").querySelectorAll("[name=kernel]")];
      if (group === changed) boxes.forEach((box) => (box.checked = group.checked));
      const count = boxes.filter((box) => box.checked).length;
      group.checked = count === boxes.length;
      group.indeterminate = count > 0 && !group.checked;
    }
  }

  function choices() {
    const found = new FormData(form);
    const [part, kind] = found.get("quantity").split(" ");
    const option = (name) => form.elements[name].selectedOptions[0].text;
    return {
      part,
      isTime: kind === "time",
      quantity: option("quantity"),
      x: found.get("x"),
      block: found.get("block_size"),
      n: Number(found.get("n")),
      memory: found.get("memory"),
      gpus: found.getAll("gpu"),
      kernels: data.kernels.filter((kernel) => found.getAll("kernel").includes(kernel.name)),
      log: found.getAll("log"),
    };
  }

  /* --- points --- */

  /* Format a number with the decimals that give `like` four significant digits, as in the tables. */
  function digits(value, like) {
    const decimals = Math.min(Math.max(3 - Math.floor(Math.log10(like)), 0), 12);
    const [whole, part] = value.toFixed(decimals).split(".");
    const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole;
    return part ? `${grouped}.${part}` : grouped;
  }

  function unitOf(value, isTime) {
    if (!isTime) return [1, "GFLOP/s"];
    return [[1, "s"], [1e3, "ms"], [1e6, "µs"]].find(([factor]) => value * factor >= 1) ?? [1e9, "ns"];
  }

  function rowsOf(choice) {
    const names = new Set(choice.kernels.map((kernel) => kernel.name));
    const gpus = data.gpus.filter((gpu) => choice.gpus.includes(gpu.label));
    const recordings = new Set(gpus.map((gpu) => gpu.recording));
    const system = (row) => row.gpu ?? row.recording;
    const found = rows.filter(
      (row) =>
        names.has(row.variant) &&
        row[choice.part] !== null &&
        (row.gpu === null ? recordings.has(row.recording) : choice.gpus.includes(row.gpu)) &&
        (row.gpu === null || choice.memory === "both" || row.host_memory === choice.memory),
    );
    if (choice.x === "block_size") {
      return found.filter((row) => row.block_size !== null && row.block_size < LEAST_TILE && row.n === choice.n);
    }
    if (choice.block !== "best") {
      const keeps = (row) => row.block_size === null || String(row.block_size) === choice.block;
      return choice.block === "all" ? found : found.filter(keeps);
    }
    // Copies do not depend on the block size: show those of the fastest end-to-end run.
    const time = choice.part === "kernel" ? "kernel" : "total";
    const best = new Map();
    for (const row of found) {
      const key = [row.variant, system(row), row.host_memory, row.threads, row.n].join("|");
      const other = best.get(key);
      if (!other || row[time] < other[time]) best.set(key, row);
    }
    return [...best.values()];
  }

  function pointsOf(choice) {
    const looks = new Map(choice.kernels.map((kernel) => [kernel.name, kernel]));
    return rowsOf(choice).map((row) => {
      const value = (bound) => {
        const time = row[choice.part + bound];
        if (time === null) return null;
        return choice.isTime ? time * data.time_unit_s : (2e-9 * row.n ** 3) / (time * data.time_unit_s);
      };
      const bounds = [value("_low"), value("_high")];
      const [low, high] = choice.isTime ? bounds : bounds.reverse();
      const y = value("");
      const [factor, unit] = unitOf(y, choice.isTime);
      const text = (number) => digits(number * factor, y * factor);
      const isCpu = row.gpu === null;
      const host = data.gpus.find((gpu) => gpu.recording === row.recording);
      const block = row.block_size === null ? "–" : blockText(row.block_size);
      return {
        ...{ x: row[choice.x], y, low, high, kernel: row.variant, size: row.n, block },
        colour: looks.get(row.variant).colour,
        system: isCpu ? `CPU of ${host.title}` : titles.get(row.gpu),
        line: isCpu ? `CPU, ${row.threads > 1 ? "several threads" : "one thread"}` : row.host_memory,
        memory: isCpu ? `– (${row.threads} thread${row.threads > 1 ? "s" : ""})` : row.host_memory,
        shown: `${text(y)} ${unit}`,
        interval: low === null ? "no interval" : `${text(low)} – ${text(high)} ${unit}`,
        samples: row.samples,
        series: [
          ...[row.variant, row.gpu ?? row.recording, row.host_memory, row.threads],
          choice.x === "n" && choice.block === "all" ? row.block_size : "",
        ].join("|"),
      };
    });
  }

  /* --- chart --- */

  function specification(choice, points) {
    const spec = JSON.parse(specText);
    const present = (name) => [...new Set(points.map((point) => point[name]))];
    const kernels = choice.kernels.filter((kernel) => present("kernel").includes(kernel.name));
    const isNarrow = chart.clientWidth < NARROW_PX;
    const [lines, , marks] = spec.layer;
    const { x, y, color } = spec.encoding;

    spec.data.values = points;
    spec.params[0].value = choice.isTime;
    spec.height = isNarrow ? 320 : spec.height;
    spec.title = { ...spec.title, ...heading(choice), limit: chart.clientWidth };
    x.axis.title = choice.x === "n" ? "matrix size N" : "block size B";
    x.axis.values = present("x");
    y.axis.title = choice.isTime ? choice.quantity : `${choice.quantity} (GFLOP/s)`;
    for (const [axis, name] of [[x, "x"], [y, "y"]]) {
      const isLog = choice.log.includes(name);
      axis.scale = isLog ? { type: "log", nice: false } : { type: "linear", zero: name === "y" };
      axis.scale.padding = name === "x" || isLog ? 12 : 0;
    }

    color.scale = {
      domain: kernels.map((kernel) => kernel.name),
      range: kernels.map((kernel) => kernel.colour),
    };
    marks.encoding.shape.scale = {
      domain: color.scale.domain,
      range: kernels.map((kernel) => kernel.shape),
    };
    if (choice.gpus.length > 1) {
      const systems = present("system");
      marks.encoding.shape = {
        ...{ field: "system", type: "nominal", legend: { title: "GPU" } },
        scale: { domain: systems, range: systems.map((_, i) => GPU_SHAPES[i % GPU_SHAPES.length]) },
      };
    }
    if (present("line").length < 2) lines.encoding.strokeDash.legend = null;
    if (isNarrow) Object.assign(spec.config.legend, { orient: "bottom", columns: 2, direction: "vertical" });
    return spec;
  }

  function heading(choice) {
    const gpus = choice.gpus.map((label) => titles.get(label));
    const block = choice.block === "best" ? "fastest block size" : `block size ${choice.block === "all" ? "all" : blockText(Number(choice.block))}`;
    const fixed = choice.x === "n" ? block : `N = ${choice.n}`;
    const memory = choice.memory === "both" ? "pageable and pinned" : choice.memory;
    return {
      text: gpus.length > 1 ? `${gpus.length} GPUs` : (gpus[0] ?? ""),
      subtitle: `${memory} host memory, ${fixed}`,
    };
  }

  async function draw() {
    const choice = choices();
    shown = pointsOf(choice);
    report(choice);
    brushed = {};
    listPoints();
    drawn?.finalize();
    drawn = null;
    chart.replaceChildren();
    if (!shown.length) return;
    drawn = await vegaEmbed(chart, specification(choice, shown), {
      ...{ mode: "vega-lite", renderer: "svg", ast: true, actions: false, defaultStyle: false },
      tooltip: { disableDefaultStyle: true },
      formatLocale: { decimal: ".", thousands: "\u202f", grouping: [3], currency: ["", ""] },
    });
    chart.querySelector("svg").setAttribute("aria-hidden", "true"); // the label of the chart describes it
    drawn.view.addSignalListener("brush", (_, brush) => {
      brushed = brush;
      listPoints();
    });
  }

  /* Report the number of points, and chosen kernels without points. */
  function report(choice) {
    const present = new Set(shown.map((point) => point.kernel));
    const missing = choice.kernels.map((k) => k.name).filter((name) => !present.has(name));
    const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
    status.textContent =
      `${count(shown.length, "point")} of ${count(present.size, "kernel")}.` +
      (missing.length ? ` Not measured for this choice: ${missing.join(", ")}.` : "");
    chart.ariaLabel = `${choice.quantity} by ${choice.x === "n" ? "matrix" : "block"} size, ${heading(choice).text}: ${status.textContent} The values are in the table below.`;
  }

  /* Fill the table with all points, or with the brushed points. */
  function listPoints() {
    const within = (point) =>
      Object.entries(brushed).every(([name, [a, b]]) => Math.min(a, b) <= point[name] && point[name] <= Math.max(a, b));
    const listed = shown.filter(within);
    list.querySelector("summary").textContent =
      listed.length < shown.length
        ? `${listed.length} of ${shown.length} points (selected) as a table`
        : `${listed.length} points as a table`;
    if (!list.open) return;
    const columns = ["kernel", "system", "size", "block", "memory", "shown", "interval", "samples"];
    const numbers = new Set(["size", "block", "shown", "interval", "samples"]);
    list.querySelector("tbody").replaceChildren(
      ...listed.map((point) =>
        element("tr", {}, ...columns.map((name) => element("td", { textContent: point[name], className: numbers.has(name) ? "number" : "" }))),
      ),
    );
  }

  /* --- start --- */

  function refreshChart(event) {
    updateGroups(event?.target);
    const byBlock = form.elements.x.value === "block_size";
    form.elements.block_size.parentElement.hidden = byBlock;
    form.elements.n.parentElement.hidden = !byBlock;
    if (drawing) drawing = drawing.then(draw);
  }

  /* Unpack data and libraries, fill the controls, draw the first chart. */
  async function start() {
    data = JSON.parse(await inflated(document.getElementById("explorer-data")));
    rows = unpack(data.rows);
    titles = new Map(data.gpus.map((gpu) => [gpu.label, gpu.title]));
    fillControls();
    refreshChart();
    for (const library of document.querySelectorAll(".explorer-library")) {
      section.append(element("script", { textContent: await inflated(library) }));
    }
    drawing = draw();
    let width = chart.clientWidth;
    new ResizeObserver(() => {
      const crossed = chart.clientWidth < NARROW_PX !== width < NARROW_PX;
      width = chart.clientWidth;
      if (crossed) refreshChart();
    }).observe(chart);
  }

  form.addEventListener("change", refreshChart);
  form.addEventListener("reset", () => setTimeout(refreshChart));
  list.addEventListener("toggle", () => listPoints());
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      start();
    },
    { rootMargin: "600px" },
  );
  observer.observe(section);
})();
