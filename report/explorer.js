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
  // Vega shapes of the markers of `analysis.drawing.palette`: a name, or a path within −1 … 1.
  const SHAPES = {
    ...{ o: "circle", s: "square", v: "triangle-down", "^": "triangle-up", D: "diamond", P: "cross" },
    ...{ "<": "triangle-left", ">": "triangle-right", d: "M0,-1L.6,0L0,1L-.6,0Z" },
    X: "M-1,-.5L-.5,-1L0,-.5L.5,-1L1,-.5L.5,0L1,.5L.5,1L0,.5L-.5,1L-1,.5L-.5,0Z",
    p: "M0,-1L.95,-.31L.59,.81L-.59,.81L-.95,-.31Z",
    h: "M0,-1L.87,-.5L.87,.5L0,1L-.87,.5L-.87,-.5Z",
    "*": "M0,-1L.22,-.31L.95,-.31L.36,.12L.59,.81L0,.38L-.59,.81L-.36,.12L-.95,-.31L-.22,-.31Z",
  };
  const DASHES = {
    ...{ pageable: [6, 3], pinned: [1, 0] },
    ...{ "CPU, one thread": [2, 2], "CPU, several threads": [8, 2, 2, 2] },
  };
  const FASTEST_CPU = "#8f7b00"; // colour of the fastest chosen implementation; of a GPU, its own
  const ROOFS = { L1: "l1_bytes_per_s", "device memory": "device_copy_bytes_per_s" };
  const MOST_LABELS = 12; // lines with a name at their end; more lines have a legend
  const [LETTER_PX, LINE_PX, AXIS_PX] = [6.4, 13, 70];
  const LEAST_TILE = 1000; // block sizes from here are tiles: 128256 is 128×256
  // The named baselines of the page (kernels/catalog/baselines.py).
  const BASELINES = {
    "fastest-naive": (row) => row.variant === "naive",
    "source-naive": (row) => row.variant === "naive" && row.block_size === 32, // SOURCE_NAIVE
    cublas: (row) => row.variant === "cublas_sgemm",
    "fastest-cpu": (row) => row.gpu === null,
  };
  const SOURCE_NAIVE = "source-naive";
  const NAMES = [
    ...["quantity", "over", "matrices", "x", "block_size", "lines"],
    ...["log", "memory", "predicted", "common", "compare", "kernel"],
  ];
  let data, rows, labels; // unpacked by start(); labels: marked names of GPUs
  let defaults; // state of the form before any choice
  let wanted = null; // the view of a figure's link, before the explorer has started
  let sizes = []; // N of square products
  let shown = []; // the points of the chart
  let leftOut = 0; // configurations that only some of the chosen GPUs have
  let brushed = {}; // range of each axis that the brush covers
  let drawn = null; // the result of vega-embed
  let drawing = null; // promise of the latest chart

  const blockText = (block) =>
    block < LEAST_TILE ? String(block) : `${Math.floor(block / LEAST_TILE)}×${block % LEAST_TILE}`;
  const isPower = (n) => Number.isInteger(Math.log2(n));

  /* --- controls --- */

  function checkbox(name, value, text, isChosen) {
    const box = element("input", { type: "checkbox", name, value, defaultChecked: isChosen });
    return element("label", {}, box, ` ${text}`);
  }

  function fillControls() {
    const squares = rows.filter((row) => row.shape === null);
    const distinct = (column, of = squares) => [...new Set(of.map((row) => row[column]))].filter((v) => v !== null);
    sizes = distinct("n").sort((a, b) => a - b);
    const blocks = distinct("block_size").sort((a, b) => a - b);
    const { elements } = form;
    elements.block_size.append(...blocks.map((b) => new Option(blockText(b), b)));
    const types = distinct(
      "dtype",
      rows.filter((row) => row.shape !== null),
    ).sort();
    elements.matrices.append(...types.map((type) => new Option(`other shapes, ${type}`, type)));
    if (!rows.some((row) => row.intensity !== null)) elements.x.querySelector("[value=intensity]").remove();
    if (context.value("baseline")) elements.over.append(new Option("the baseline of the page", "baseline"));
    if (rows.some(BASELINES[SOURCE_NAIVE])) elements.over.append(new Option("naive (B = 32)", SOURCE_NAIVE));
    elements.over.append(...data.kernels.map(({ name }) => new Option(name, name)));
    const others = document.getElementById("explorer-others");
    others.hidden = data.gpus.length < 2;
    others.append(...data.gpus.map((gpu) => checkbox("compare", gpu.label, gpu.title, false)));
    if (!rows.some((row) => row.gpu !== null)) {
      for (const option of [...elements.quantity.options]) if (!option.value.startsWith("total")) option.remove();
    }
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

  /* --- the view in the address --- */

  const state = () => Object.fromEntries(NAMES.map((name) => [name, new FormData(form).getAll(name)]));

  /* Set controls from values by name; others get their defaults. Unknown values are ignored, and a
     view whose kernels were not measured has those of the first visit. */
  function restore(view) {
    const groups = new Set(data.kernels.flatMap(({ name, group }) => [name, `@${group}`, "*", ""]));
    if (view.has("kernel") && !view.getAll("kernel").some((name) => groups.has(name))) {
      view = new URLSearchParams(view);
      view.delete("kernel");
    }
    for (const control of form.elements) {
      const values = view.has(control.name) ? view.getAll(control.name) : defaults[control.name];
      if (!values) continue;
      if (control.type === "checkbox") {
        const group = data.kernels.find((kernel) => kernel.name === control.value)?.group;
        const isNamed = control.name === "kernel" && values.includes(`@${group}`);
        control.checked = values.includes("*") || values.includes(control.value) || isNamed;
      } else if ([...control.options].some(({ value }) => value === values[0])) {
        control.value = values[0];
      }
    }
  }

  function saveAddress(hash = "#explorer") {
    const changed = Object.entries(state()).map(([name, values]) => {
      const isDefault = JSON.stringify(values) === JSON.stringify(defaults[name]);
      return [name, isDefault ? null : values.length ? values : [""]];
    });
    setAddress(Object.fromEntries(changed), hash);
  }

  function choices() {
    const found = new FormData(form);
    const [part, kind] = found.get("quantity").split(" ");
    const option = (name) => form.elements[name].selectedOptions[0].text;
    const over = found.get("over");
    const matrices = found.get("matrices");
    const gpu = context.value("gpu") ?? data.focus;
    const gpus = [gpu, ...found.getAll("compare").filter((label) => label !== gpu)];
    const distance = (n) => Math.abs(Math.log(n / Number(context.value("n"))));
    const place = context.value("location") === "pageable" ? "pageable" : "pinned";
    return {
      ...{ part, matrices, over, gpus },
      overText: over === "baseline" ? context.title("baseline", context.ladder()) : option("over"),
      kind: over ? "ratio" : kind,
      quantity: option("quantity"),
      x: matrices ? "operations" : found.get("x"),
      block: found.get("block_size"),
      n: sizes.reduce((best, n) => (distance(n) < distance(best) ? n : best), sizes[0]),
      memory: found.has("memory") ? "both" : place,
      lines: found.get("lines"),
      kernels: data.kernels.filter((kernel) => found.getAll("kernel").includes(kernel.name)),
      log: found.getAll("log"),
      isCommon: found.has("common") && gpus.length > 1,
      isPredicted: found.has("predicted") && part === "total" && !matrices && !over && found.get("x") === "n",
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

  function unitOf(value, kind) {
    if (kind !== "time") return [1, kind === "ratio" ? "×" : "GFLOP/s"];
    return (
      [
        [1, "s"],
        [1e3, "ms"],
        [1e6, "µs"],
      ].find(([factor]) => value * factor >= 1) ?? [1e9, "ns"]
    );
  }

  const system = (row) => row.gpu ?? row.recording;
  const operations = (row) => {
    const edges = (row.shape ?? String(row.n)).split("x").map(Number);
    const [batch, m, k, n] =
      edges.length === 1 ? [1, ...edges, ...edges, ...edges] : edges.length === 3 ? [1, ...edges] : edges;
    return 2 * batch * m * k * n;
  };

  /* The row with the least time of each group. */
  function least(found, keyOf, time) {
    const best = new Map();
    for (const row of found.filter((each) => each[time] !== null)) {
      const key = keyOf(row);
      const other = best.get(key);
      if (!other || row[time] < other[time]) best.set(key, row);
    }
    return best;
  }

  function isOnChosen({ gpus }) {
    const hosts = new Set(data.gpus.filter(({ label }) => gpus.includes(label)).map((gpu) => gpu.recording));
    return (row) => (row.gpu === null ? hosts.has(row.recording) : gpus.includes(row.gpu));
  }

  /* Whether the row was recorded with an older source of its kernel. */
  const isStale = (row) =>
    data.gpus.some(
      (gpu) =>
        (row.gpu ?? gpu.label) === gpu.label && gpu.recording === row.recording && gpu.stale.includes(row.variant),
    );

  /* Without the restriction, the rows. With it, only configurations that every system among them
     has, with the present source: a minimum over more of them is smaller. */
  function comparable(found, choice) {
    if (!choice.isCommon) return found;
    const parts = ["variant", "block_size", "threads", "host_memory", "dtype"];
    const key = (row) =>
      [row.gpu === null, isStale(row) ? system(row) : "", ...parts.map((part) => row[part]), row.shape ?? row.n].join(
        "|",
      );
    const systemsOf = new Map();
    for (const row of found) systemsOf.set(key(row), (systemsOf.get(key(row)) ?? new Set()).add(system(row)));
    const measured = rows.filter(isOnChosen(choice));
    const [cpus, gpus] = [true, false].map(
      (isCpu) => new Set(measured.filter((row) => (row.gpu === null) === isCpu).map(system)),
    );
    return found.filter((row) => systemsOf.get(key(row)).size === (row.gpu === null ? cpus : gpus).size);
  }

  function rowsOf(choice) {
    const names = new Set(choice.kernels.map((kernel) => kernel.name));
    const chosen = rows
      .filter(isOnChosen(choice))
      .filter(
        (row) =>
          names.has(row.variant) &&
          row[choice.part] !== null &&
          (choice.matrices ? row.shape !== null && row.dtype === choice.matrices : row.shape === null) &&
          (row.gpu === null || choice.memory === "both" || row.host_memory === choice.memory),
      );
    const found = comparable(chosen, choice);
    leftOut = chosen.length - found.length;
    if (choice.x === "intensity") return found.filter((row) => row.intensity !== null);
    if (choice.x === "block_size") {
      return found.filter((row) => row.block_size !== null && row.block_size < LEAST_TILE && row.n === choice.n);
    }
    if (choice.block !== "best") {
      const keeps = (row) => row.block_size === null || String(row.block_size) === choice.block;
      return choice.block === "all" ? found : found.filter(keeps);
    }
    // Copies do not depend on the block size: show those of the fastest end-to-end run.
    const key = (row) => [row.variant, system(row), row.host_memory, row.threads, row.shape ?? row.n].join("|");
    return [...least(found, key, choice.part === "kernel" ? "kernel" : "total").values()];
  }

  /* Times of the reference: a kernel in its fastest block size, or the baseline of the page. Of a
     kernel on a GPU, the time with the same host memory; of the CPU, the end-to-end time. */
  function references(choice) {
    const over = choice.over === "baseline" ? context.ladder() : choice.over;
    const matches = BASELINES[over] ?? ((row) => row.variant === over);
    const isOnCpu = rows.find(matches)?.gpu === null;
    const isReference = (row) =>
      matches(row) && (row.gpu === null) === isOnCpu && (!choice.matrices || row.dtype === choice.matrices);
    const found = comparable(rows.filter(isReference).filter(isOnChosen(choice)), choice);
    const part = isOnCpu ? "total" : choice.part;
    const key = (row) =>
      [isOnCpu ? row.recording : system(row), isOnCpu ? "" : row.host_memory, row.shape ?? row.n].join("|");
    const best = least(found, key, part);
    const memory = choice.memory === "both" ? "pinned" : choice.memory;
    return (row) => {
      const gpu =
        row.gpu ??
        data.gpus.find((each) => each.recording === row.recording && choice.gpus.includes(each.label))?.label;
      const at = [isOnCpu ? row.recording : gpu, isOnCpu ? "" : (row.host_memory ?? memory), row.shape ?? row.n];
      return best.get(at.join("|"))?.[part] ?? null;
    };
  }

  /* The fastest of the chosen implementations: one line per GPU and host memory, and per CPU. */
  function withFastest(found, choice) {
    if (choice.lines === "each" || choice.x === "intensity") return found;
    const key = (row) =>
      [system(row), row.host_memory, choice.x === "block_size" ? row.block_size : (row.shape ?? row.n)].join("|");
    const best = [...least(found, key, choice.part).values()].map((row) => ({ ...row, isFastest: true }));
    return choice.lines === "fastest" ? best : [...found, ...best];
  }

  function pointsOf(choice) {
    const looks = new Map(choice.kernels.map((kernel) => [kernel.name, kernel]));
    const reference = choice.over ? references(choice) : null;
    const unit_s = data.time_unit_s;
    return withFastest(rowsOf(choice), choice).flatMap((row) => {
      const memory = choice.part === "kernel" ? "–" : row.host_memory; // a kernel-only time has no copies
      const value = (bound) => {
        const time = row[choice.part + bound];
        if (time === null) return null;
        if (reference) return reference(row) && reference(row) / time;
        return choice.kind === "time" ? time * unit_s : (1e-9 * operations(row)) / (time * unit_s);
      };
      const y = value("");
      if (y === null) return [];
      const bounds = reference ? [null, null] : [value("_low"), value("_high")];
      const [low, high] = choice.kind === "time" ? bounds : bounds.reverse();
      const [factor, unit] = unitOf(y, choice.kind);
      const text = (number) => digits(number * factor, y * factor);
      const isCpu = row.gpu === null;
      const host = data.gpus.find((gpu) => (isCpu ? gpu.recording === row.recording : gpu.label === row.gpu));
      const place = isCpu ? "the CPU" : choice.gpus.length > 1 ? labels.get(row.gpu) : "the GPU";
      const name = row.isFastest ? `fastest chosen on ${place}` : row.variant;
      const x = choice.x === "operations" ? operations(row) : row[choice.x];
      return {
        ...{ x, y, low, high, row, size: row.shape?.replaceAll("x", "×") ?? row.n },
        kernel: name,
        measured: row.variant,
        block: row.block_size === null ? "–" : blockText(row.block_size),
        colour: !row.isFastest ? looks.get(row.variant).colour : isCpu ? FASTEST_CPU : host.colour,
        system: isCpu ? `CPU of ${host.name}` : labels.get(row.gpu),
        line: isCpu ? `CPU, ${row.threads > 1 ? "several threads" : "one thread"}` : row.host_memory,
        memory: isCpu ? `– (${row.threads} thread${row.threads > 1 ? "s" : ""})` : memory,
        shown: `${text(y)}${unit === "×" ? "" : " "}${unit}`,
        interval: low === null ? "no interval" : `${text(low)} – ${text(high)} ${unit}`,
        samples: row.samples,
        series: [
          ...[name, system(row), row.host_memory, row.isFastest ? "" : row.threads],
          choice.x === "n" && choice.block === "all" ? row.block_size : "",
        ].join("|"),
      };
    });
  }

  /* Predicted end-to-end times of the kernels on the GPUs, at and beyond the measured sizes. */
  function predictionsOf(choice) {
    if (!choice.isPredicted || !predictions.of) return [];
    const found = new Map(
      shown.filter(({ row }) => row.gpu !== null && !row.isFastest).map((point) => [point.series, point]),
    );
    return [...found.values()].flatMap(({ row, colour, series }) => {
      const sizes = shown.filter((point) => point.series === series).map(({ x }) => x);
      const [first, last] = [Math.min(...sizes), 2 * Math.max(...sizes)];
      const times = predictions.of(row.gpu, row.host_memory, row.variant);
      return times
        .filter(({ n }) => first <= n && n <= last)
        .map(({ n, time }) => ({ x: n, y: choice.kind === "time" ? time : (2e-9 * n ** 3) / time, colour, series }));
    });
  }

  /* --- chart --- */

  /* Powers of ten within a range; 2 and 5 times these within less than two of them. */
  function decades([low, high]) {
    const first = Math.floor(Math.log10(low));
    const steps = high / low < 300 ? [1, 2, 5] : [1];
    const all = [...Array(Math.ceil(Math.log10(high)) - first + 1).keys()];
    return all
      .flatMap((step) => steps.map((factor) => Number(`${factor}e${first + step}`)))
      .filter((tick) => low <= tick && tick <= high);
  }

  function domainOf(values, isLog, share) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    if (!isLog) return [0, high * (1 + share) || 1];
    const margin = Math.max((high / low) ** share, 1.05);
    return [low / margin, high * margin];
  }

  /* One name at the end of each line, moved apart vertically; null if the lines need a legend. */
  function namesOf(points, predicted, choice, [low, high], isLog, height) {
    const ends = new Map();
    for (const point of [...points, ...predicted]) {
      const other = ends.get(point.series);
      if (!other || point.x > other.x) ends.set(point.series, { ...other, ...point });
    }
    const isOrdered = choice.x === "n" || choice.x === "block_size";
    if (!isOrdered || ends.size > MOST_LABELS || ends.size * LINE_PX > height) return null;
    const scale = isLog ? Math.log : (value) => value;
    const place = (y) => (height * (scale(high) - scale(y))) / (scale(high) - scale(low));
    const back = (px) => {
      const value = scale(high) - (px / height) * (scale(high) - scale(low));
      return isLog ? Math.exp(value) : value;
    };
    const several = new Set(points.map((point) => point.system)).size > 1 && choice.gpus.length > 1;
    const names = [...ends.values()].map((point) => ({
      ...{ x: point.x, colour: point.colour, series: point.series, px: place(point.y) },
      text: [
        point.kernel,
        ...(several && point.row.gpu && !point.row.isFastest ? [point.row.gpu] : []),
        ...(point.row.gpu || point.row.isFastest
          ? []
          : [point.row.threads > 1 ? `${point.row.threads} threads` : "1 thread"]),
        ...(choice.memory === "both" && point.row.gpu ? [point.row.host_memory] : []),
        ...(choice.x === "n" && choice.block === "all" && point.block !== "–" ? [`B = ${point.block}`] : []),
      ].join(", "),
    }));
    names.sort((a, b) => a.px - b.px);
    names.forEach((name, at) => (name.px = Math.max(name.px, at ? names[at - 1].px + LINE_PX : LINE_PX / 2)));
    names
      .reverse()
      .forEach((name, at) => (name.px = Math.min(name.px, at ? names[at - 1].px - LINE_PX : height - LINE_PX / 2)));
    const width = Math.max(...names.map(({ text }) => text.length), 0) * LETTER_PX + 14;
    if (width > 0.42 * chart.clientWidth) return null;
    return { width, values: names.map((name) => ({ ...name, y: back(name.px) })) };
  }

  function specification(choice, points) {
    const spec = JSON.parse(specText);
    const present = (name, of = points) => [...new Set(of.map((point) => point[name]))];
    const isNarrow = chart.clientWidth < NARROW_PX;
    const [lines, marks] = [spec.layer[0], spec.layer.at(-1)];
    const { x, y, color } = spec.encoding;
    const predictedPoints = predictionsOf(choice);
    const isLog = { x: choice.log.includes("x"), y: choice.log.includes("y") };

    spec.params[0].value = choice.kind === "time";
    spec.height = isNarrow ? 220 : spec.height;
    spec.title = { ...spec.title, ...heading(choice), limit: chart.clientWidth };
    const gpu = data.gpus.find(({ label }) => label === choice.gpus[0]);
    const peak = choice.x === "intensity" && choice.kind === "throughput" && gpu?.fp32_flop_per_s;
    const peaks = peak ? [peak / 1e9] : [];
    const heights = points.flatMap((point) => [point.y, point.low ?? point.y, point.high ?? point.y]);
    y.scale = {
      ...(isLog.y ? { type: "log" } : { type: "linear", zero: false }),
      nice: false,
      domain: domainOf([...heights, ...predictedPoints.map((point) => point.y), ...peaks], isLog.y, 0.04),
    };
    y.axis.title = choice.over
      ? `speedup over ${choice.overText}`
      : choice.kind === "time"
        ? choice.quantity
        : `${choice.quantity} (GFLOP/s)`;
    if (isLog.y) y.axis.values = decades(y.scale.domain);

    const names = namesOf(points, predictedPoints, choice, y.scale.domain, isLog.y, spec.height);
    // Room for the legend.
    if (!names) spec.height = Math.max(spec.height - Math.max(present("kernel").length - 15, 0) * 6, 260);
    const columns = present("x", [...points, ...predictedPoints]);
    const [low, high] = domainOf(columns, isLog.x, 0.02);
    const share = names ? names.width / (chart.clientWidth - AXIS_PX - names.width) : 0;
    const extended = isLog.x ? high * (high / low) ** share : high + (high - low) * share;
    x.scale = {
      ...(isLog.x ? { type: "log" } : { type: "linear", zero: false }),
      nice: false,
      domain: [low, extended],
    };
    const roofs = Object.entries(ROOFS).flatMap(([text, name]) => {
      const ends = [Math.max(low, (1.5e9 * y.scale.domain[0]) / gpu?.[name]), Math.min(high, peak / gpu?.[name])];
      return ends[0] < ends[1]
        ? ends.map((at, end) => ({ x: at, y: (gpu[name] * at) / 1e9, series: name, text: end ? "" : text }))
        : [];
    });
    x.axis.title = {
      ...{ n: "matrix size N", block_size: "block size B" },
      ...{ intensity: "FLOP per byte of global-memory sectors", operations: "operations, 2·M·N·K per product" },
    }[choice.x];
    const measured = present("x");
    const powers = measured.filter(isPower);
    x.axis.values = ["n", "block_size"].includes(choice.x)
      ? measured.length > 9 && powers.length > 2
        ? powers
        : measured
      : isLog.x
        ? decades([low, high])
        : undefined;
    spec.data.values = [
      ...points.map(({ row, ...point }) => ({ ...point, kind: "point" })),
      ...predictedPoints.map((point) => ({ ...point, kind: "predicted" })),
      ...(names?.values ?? []).map((name) => ({ ...name, kind: "name" })),
      ...roofs.map((end) => ({ ...end, kind: "roof" })),
      ...peaks.map((value) => ({
        y: value,
        text: `FMA throughput${choice.gpus.length > 1 ? `, ${gpu.label}` : ""}`,
        kind: "peak",
      })),
    ];

    const kernels = new Map(points.map((point) => [point.kernel, point.colour]));
    const ordered = [...choice.kernels.map(({ name }) => name), ...kernels.keys()].filter((name) => kernels.has(name));
    const domain = [...new Set(ordered)];
    color.scale = { domain, range: domain.map((name) => kernels.get(name)) };
    const shapes = new Map(choice.kernels.map(({ name, marker }) => [name, SHAPES[marker]]));
    marks.encoding.shape.scale = { domain, range: domain.map((name) => shapes.get(name) ?? "circle") };
    if (choice.gpus.length > 1) {
      const systems = present("system");
      marks.encoding.shape = {
        ...{ field: "system", type: "nominal", legend: { title: "GPU or CPU" } },
        scale: { domain: systems, range: systems.map((_, i) => GPU_SHAPES[i % GPU_SHAPES.length]) },
      };
    }
    const kinds = Object.keys(DASHES).filter((kind) => present("line").includes(kind));
    lines.encoding.strokeDash.scale = { domain: kinds, range: kinds.map((kind) => DASHES[kind]) };
    if (kinds.length < 2) lines.encoding.strokeDash.legend = null;
    if (names) {
      color.legend = null;
      if (choice.gpus.length < 2) marks.encoding.shape.legend = null;
    }
    if (["intensity", "operations"].includes(choice.x)) lines.encoding.opacity = { value: 0 }; // points in no order
    const columnsOf = (texts, symbolPx = 30) => {
      const longest = Math.max(...texts.map((text) => Math.min(text.length, 44))) * LETTER_PX + symbolPx;
      return Math.max(Math.floor((chart.clientWidth - AXIS_PX) / longest), 1);
    };
    spec.config.legend.columns = columnsOf(domain);
    spec.config.legend.labelLimit = Math.min(chart.clientWidth - AXIS_PX - 40, 280);
    if (kinds.length > 1) lines.encoding.strokeDash.legend.columns = columnsOf(kinds, 60);
    if (choice.gpus.length > 1) marks.encoding.shape.legend.columns = columnsOf(present("system"));
    return spec;
  }

  /* Join the legends of a kernel's colour and shape, which Vega-Lite keeps apart. */
  function withOneLegend(vega) {
    const [colours, shapes] = (vega.legends ?? []).filter(({ title }) => title === "kernel");
    if (shapes) {
      delete colours.symbolType;
      colours.shape = "shape";
      vega.legends = vega.legends.filter((legend) => legend !== shapes);
    }
    return vega;
  }

  function heading(choice) {
    const one = data.gpus.find(({ label }) => label === choice.gpus[0]);
    const block =
      choice.block === "best"
        ? "fastest block size"
        : `block size ${choice.block === "all" ? "all" : blockText(Number(choice.block))}`;
    const nearest = choice.n === Number(context.value("n")) ? "" : ", the nearest size measured";
    const fixed =
      { block_size: `N = ${choice.n}${nearest}`, intensity: "configurations of the roofline" }[choice.x] ?? block;
    const memory = choice.memory === "both" ? "pageable and pinned" : choice.memory;
    const isShown = ["pinned", "pageable"].includes(context.value("location") ?? "pinned");
    const instead = isShown ? "" : `, as “${context.title("location")}” is not in the explorer`;
    const place = choice.part === "kernel" ? "without copies" : `${memory} host memory${instead}`;
    const hasGpu = shown.some(({ row }) => row.gpu !== null);
    return {
      text: choice.gpus.length > 1 ? choice.gpus.map((label) => labels.get(label)).join(", ") : (one?.title ?? ""),
      subtitle: hasGpu ? `${place}, ${fixed}` : fixed,
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
    for (const button of form.querySelectorAll(".buttons [type=button]")) button.disabled = !shown.length;
    if (!shown.length) return;
    drawn = await vegaEmbed(chart, specification(choice, shown), {
      ...{ mode: "vega-lite", renderer: "svg", ast: true, actions: false, defaultStyle: false },
      ...{ tooltip: { disableDefaultStyle: true }, patch: withOneLegend },
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
    const present = new Set(shown.map((point) => point.measured));
    const missing =
      choice.lines === "fastest" ? [] : choice.kernels.map((k) => k.name).filter((name) => !present.has(name));
    const others = missing.length > 5 ? ` and ${missing.length - 5} others` : "";
    const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
    status.textContent =
      (shown.length
        ? `${count(shown.length, "point")} of ${count(present.size, "kernel")}.`
        : "No points: choose a GPU and a kernel that was measured on it.") +
      (leftOut
        ? ` Omitted: ${leftOut} configurations that were not measured in the same way on all chosen GPUs.`
        : "") +
      (choice.over ? ` Speedups are over ${choice.overText}, without intervals.` : "") +
      (missing.length ? ` Not measured for this choice: ${missing.slice(0, 5).join(", ")}${others}.` : "");
    const title = `${choice.quantity}, ${heading(choice).text}`;
    chart.ariaLabel = `${title}: ${status.textContent} The values are in the table below.`;
  }

  function listed() {
    const within = (point) =>
      Object.entries(brushed).every(([name, [a, b]]) => Math.min(a, b) <= point[name] && point[name] <= Math.max(a, b));
    return shown.filter(within);
  }

  /* Fill the table with all points, or with the brushed points. */
  function listPoints() {
    const found = listed();
    list.querySelector("summary").textContent =
      found.length < shown.length
        ? `${found.length} of ${shown.length} points (selected) as a table`
        : `${found.length} points as a table`;
    if (!list.open) return;
    const columns = ["measured", "system", "size", "block", "memory", "shown", "interval", "samples"];
    const numbers = new Set(["size", "block", "shown", "interval", "samples"]);
    list
      .querySelector("tbody")
      .replaceChildren(
        ...found.map((point) =>
          element(
            "tr",
            {},
            ...columns.map((name) =>
              element("td", { textContent: point[name], className: numbers.has(name) ? "n" : "" }),
            ),
          ),
        ),
      );
  }

  /* --- files --- */

  function save(blob, name) {
    const link = element("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  /* Commit of the page and date of the last recording. */
  const { version } = section.dataset;

  /* The chart in twice its size, on white: the text is black outside of the page. */
  async function savePng() {
    const picture = await drawn.view.toCanvas(2);
    const paper = element("canvas", { width: picture.width, height: picture.height + 2 * LINE_PX });
    const pen = paper.getContext("2d");
    pen.fillStyle = "white";
    pen.fillRect(0, 0, paper.width, paper.height);
    pen.drawImage(picture, 0, 0);
    pen.fillStyle = "black";
    pen.font = `${1.5 * LINE_PX}px sans-serif`;
    pen.fillText(version, LINE_PX, paper.height - LINE_PX / 2);
    paper.toBlob((blob) => save(blob, `explorer-${version}.png`));
  }

  /* The listed points in SI units. Texts that a spreadsheet would read as formulas get an apostrophe. */
  function saveCsv() {
    const choice = choices();
    const factor = choice.kind === "throughput" ? 1e9 : 1;
    const unit = { time: "s", throughput: "FLOP/s", ratio: "speedup" }[choice.kind];
    const columns = [
      "kernel",
      "system",
      "dtype",
      "shape",
      "block_size",
      "host_memory",
      "threads",
      "quantity",
      "over",
      "unit",
      "value",
      "low",
      "high",
      "samples",
    ];
    const lines = listed().map(({ row, y, low, high, system: name }) => {
      const scaled = [y, low, high].map((value) => (value === null ? "" : Number((value * factor).toPrecision(6))));
      const kind = choice.part === "total" ? "end-to-end" : choice.part;
      return [
        row.variant,
        name,
        row.dtype,
        row.shape ?? row.n,
        row.block_size,
        row.host_memory,
        row.threads,
        kind,
        choice.overText,
        unit,
        ...scaled,
        row.samples,
      ];
    });
    const cell = (value) => {
      const text = typeof value === "string" && /^'*[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
      return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const text = [columns, ...lines].map((line) => line.map(cell).join(",")).join("\n");
    save(new Blob([`${text}\n`], { type: "text/csv" }), `explorer-${version}.csv`);
  }

  /* --- start --- */

  function refreshChart(event) {
    updateGroups(event?.target);
    const { elements } = form;
    const isSquare = !elements.matrices.value;
    const byBlock = isSquare && elements.x.value === "block_size";
    elements.x.parentElement.hidden = !isSquare;
    elements.block_size.parentElement.hidden = byBlock;
    for (const box of form.querySelectorAll("[name=compare]"))
      box.parentElement.hidden = box.value === choices().gpus[0];
    if (!drawing) return;
    if (event) saveAddress();
    drawing = drawing.then(draw);
  }

  function open(view) {
    if (!drawing) {
      wanted = view;
      return;
    }
    restore(view);
    context.set(view);
    saveAddress();
  }

  /* Unpack data and libraries, fill the controls, draw the first chart. */
  async function start() {
    data = JSON.parse(await inflated(document.getElementById("explorer-data")));
    rows = unpacked(data.rows);
    labels = new Map(data.gpus.map((gpu) => [gpu.label, gpu.name]));
    fillControls();
    form.reset();
    defaults = state();
    restore(wanted ?? new URLSearchParams(location.search));
    if (wanted) context.set(wanted);
    refreshChart();
    for (const library of document.querySelectorAll(".explorer-library")) {
      section.append(element("script", { textContent: await inflated(library) }));
    }
    drawing = draw();
    if (wanted) saveAddress();
    let width = chart.clientWidth;
    new ResizeObserver(() => {
      const crossed = chart.clientWidth < NARROW_PX !== width < NARROW_PX;
      width = chart.clientWidth;
      if (crossed) refreshChart();
    }).observe(chart);
    form.addEventListener("change", refreshChart);
    form.addEventListener("reset", () => setTimeout(() => refreshChart({})));
    document.addEventListener("context", () => refreshChart());
    document.getElementById("explorer-png").addEventListener("click", savePng);
    document.getElementById("explorer-csv").addEventListener("click", saveCsv);
  }

  list.addEventListener("toggle", () => listPoints());
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-view]");
    if (link) open(new URLSearchParams(link.dataset.view));
  });
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
