/* The calculator: predicted time, speedup and break-even size for any N. It evaluates the curves of
   `gemm-study advise` (analysis/decide/predictors.py and advise.py) and prints the same digits. */
(() => {
  "use strict";
  const form = document.getElementById("calculator-form");
  if (!form) return;
  const MATRICES = { h2d: [2, 2], d2h: [1, 1], overhead: [1, 3] }; // latencies, matrices moved
  const ELEMENT_BYTES = 4;
  const LARGEST_N = 46340;
  const OVER_ROUNDING = 1e-9;
  let data, gpus, baselines; // unpacked by start()

  /* --- curves: log time over log N --- */

  function makeCurve(rows) {
    const [first, last] = [rows[0], rows.at(-1)];
    return {
      n: rows.map((row) => row.n),
      logN: rows.map((row) => Math.log(row.n)),
      logS: rows.map((row) => Math.log(row.filled_s)),
      slopes: rows.map((row) => row.slope),
      outer: [first.outer_slope, last.outer_slope],
      // JSON has no infinity: null is an unbounded interval.
      between: first.half_width_between ?? Infinity,
      beyond: first.half_width_beyond ?? Infinity,
      halfWidth: first.half_width ?? Infinity,
    };
  }

  const covers = (curve, n) =>
    curve.n[0] * (1 - OVER_ROUNDING) <= n && n <= curve.n.at(-1) * (1 + OVER_ROUNDING);

  /* Cubic Hermite interpolant between sizes, a straight line beyond them. */
  function secondsAt(curve, n) {
    const { logN, logS, slopes, outer } = curve;
    const x = Math.log(n);
    const inside = Math.min(Math.max(x, logN[0]), logN.at(-1));
    const right = Math.max(logN.findIndex((each) => each >= inside), 1);
    const left = right - 1;
    const width = logN[right] - logN[left];
    const u = (inside - logN[left]) / width;
    const within =
      (1 - u) ** 2 * (1 + 2 * u) * logS[left] +
      u ** 2 * (3 - 2 * u) * logS[right] +
      width * u * (1 - u) ** 2 * slopes[left] -
      width * u ** 2 * (1 - u) * slopes[right];
    return Math.exp(within + (x - inside) * (x < inside ? outer[0] : outer[1]));
  }

  /* Distance from the measured sizes in octaves, as in kriging with a linear variogram. */
  function reach(curve, n) {
    const x = Math.log(n);
    const last = curve.logN.length - 1;
    const first = curve.logN.findIndex((each) => each >= x);
    const right = first < 0 ? last : first;
    const left = x < curve.logN[0] ? 0 : curve.logN.findLastIndex((each) => each <= x);
    const [before, after] = [Math.abs(x - curve.logN[left]), Math.abs(curve.logN[right] - x)];
    const isInside = x > curve.logN[0] && x < curve.logN[last];
    const distance = isInside
      ? (before * after) / Math.max(before + after, 1e-300)
      : Math.min(before, after);
    return Math.sqrt(distance / Math.LN2);
  }

  function halfWidthAt(curve, n) {
    const distance = reach(curve, n);
    const octave = covers(curve, n) ? curve.between : curve.beyond;
    return Math.hypot(distance ? octave * distance : 0, curve.halfWidth);
  }

  /* --- predictions --- */

  function combined(parts, widths) {
    const time = Object.values(parts).reduce((sum, part) => sum + part, 0);
    const squares = Object.keys(parts).map((name) => (parts[name] * widths[name]) ** 2);
    const half = Math.sqrt(squares.reduce((sum, square) => sum + square, 0)) / time;
    return { time, half, low: time * Math.exp(-half), high: time * Math.exp(half) };
  }

  function copyTimes(gpu, n) {
    return Object.fromEntries(
      Object.entries(MATRICES).map(([part, [copies, matrices]]) => {
        const fit = gpu.copies[part];
        const bytes = matrices * ELEMENT_BYTES * n ** 2;
        const knee = fit.knee_bytes ?? Infinity;
        const bandwidth = fit.bytes_per_s ?? Infinity; // a fit may have only one part
        const beyond = Math.max(bytes - knee, 0) / (fit.beyond_bytes_per_s ?? Infinity);
        return [part, copies * fit.latency_s + Math.min(bytes, knee) / bandwidth + beyond];
      }),
    );
  }

  /* Kernel time; a partly filled last wave of blocks prolongs it. */
  function kernelTime(gpu, kernel, curve, n) {
    let fill = 1;
    if (kernel.tile) {
      const [rows, columns, most] = kernel.tile;
      const blocks = Math.min(Math.ceil(n / rows) * Math.ceil(n / columns), most);
      const mean = blocks / gpu.multiprocessors;
      fill = Math.ceil(mean) / mean;
    }
    return Math.max(secondsAt(curve, n) * fill, gpu.launch);
  }

  function predict(gpu, kernel, n, products) {
    const { runs, curve, again } = kernel;
    let parts, widths;
    if (runs && (!curve || covers(runs, n))) {
      parts = { product: secondsAt(runs, n) };
      widths = { product: halfWidthAt(runs, n) };
    } else {
      parts = { ...copyTimes(gpu, n), kernel: kernelTime(gpu, kernel, curve, n) };
      widths = Object.fromEntries(Object.keys(MATRICES).map((part) => [part, gpu.copies[part].half_width ?? Infinity]));
      widths.kernel = halfWidthAt(curve, n);
    }
    if (products > 1) {
      parts.kernel = (parts.kernel ?? 0) + (products - 1) * kernelTime(gpu, kernel, again, n);
      widths.kernel = halfWidthAt(again, n);
    }
    return combined(parts, widths);
  }

  /* The parts of a predicted time; null if they overlap. */
  function split(gpu, kernel, n, products) {
    if (!kernel.again) return null;
    const once = kernelTime(gpu, kernel, kernel.again, n);
    const parts = { ...copyTimes(gpu, n), kernel: once };
    const sum = Object.values(parts).reduce((total, part) => total + part, 0);
    const scale = predict(gpu, kernel, n, 1).time / sum;
    for (const part of Object.keys(parts)) parts[part] *= scale;
    parts.kernel += (products - 1) * once;
    return parts;
  }

  const range = (curve) => [curve.n[0], curve.n.at(-1)];

  /* Those of `all` whose range of sizes contains `n`, or the nearest size of all. */
  function withinReach(all, rangeOf, n) {
    const ranges = all.map(rangeOf);
    let nearest = Math.max(n, Math.min(...ranges.map(([least]) => least)));
    nearest = Math.min(nearest, Math.max(...ranges.map(([, largest]) => largest)));
    return all.filter((_, at) => ranges[at][0] <= nearest && nearest <= ranges[at][1]);
  }

  const kernelRange = (kernel) => range(kernel.runs ?? kernel.curve);
  const leastBy = (all, value) => all.reduce((best, each) => (value(each) < value(best) ? each : best), all[0]);

  function fastest(gpu, n, isLibrary, products) {
    const known = gpu.kernels.filter((kernel) => products === 1 || kernel.again);
    const ranked = withinReach(known, kernelRange, n).filter((kernel) => kernel.isLibrary === isLibrary);
    if (!ranked.length) return null;
    const least = Math.max(...ranked.map((kernel) => kernelRange(kernel)[0]));
    const largest = Math.min(...ranked.map((kernel) => kernelRange(kernel)[1]));
    const nearest = Math.min(Math.max(n, least), largest);
    const timed = ranked.map((kernel) => [kernel, predict(gpu, kernel, nearest, products).time]);
    const [kernel] = leastBy(timed, ([, time]) => time);
    return { kernel, ...predict(gpu, kernel, n, products) };
  }

  function onCpu(own, n, floor, products) {
    const known = withinReach(own.curves, ({ curve }) => range(curve), n);
    const { name, curve } = leastBy(known, (each) => secondsAt(each.curve, n));
    const product = Math.max(secondsAt(curve, n), floor) * products;
    return { name, curve, ...combined({ product }, { product: halfWidthAt(curve, n) }) };
  }

  function breakEven(gpu, own, products) {
    if (products === 1) return data.breakEven[[gpu.label, gpu.memory, own.id].join("|")] ?? "not measured";
    const kernels = gpu.kernels.filter((kernel) => kernel.again && !kernel.isLibrary);
    const sides = [kernels.map(kernelRange), own.curves.map(({ curve }) => range(curve))];
    const least = Math.max(...sides.map((side) => Math.min(...side.map(([low]) => low))));
    const largest = Math.min(...sides.map((side) => Math.max(...side.map(([, high]) => high))));
    const grid = [];
    for (let step = 0; least <= largest && step <= Math.floor(8 * Math.log2(largest / least)); ++step) {
      grid.push(Math.floor(least * 2 ** (step / 8)));
    }
    grid.push(largest);
    const isSlower = (n) => fastest(gpu, n, false, products).time >= onCpu(own, n, 0, products).time;
    const at = grid.findLastIndex(isSlower);
    if (at < 0) return `below N = ${least}, the smallest size measured`;
    if (at === grid.length - 1) return `above N = ${largest}, the largest size measured`;
    let [slower, faster] = [grid[at], grid[at + 1]];
    while (faster - slower > 1) {
      const middle = Math.floor((slower + faster) / 2);
      [slower, faster] = isSlower(middle) ? [middle, faster] : [slower, middle];
    }
    return `N = ${faster}`;
  }

  /* --- numbers as `advise` prints them --- */

  /* Three significant digits, as Python's format ".3g". */
  function general(value) {
    if (!Number.isFinite(value)) return "inf";
    const [mantissa, exponent] = value.toExponential(2).split("e");
    const power = Number(exponent);
    if (power >= -4 && power < 3) return String(Number(value.toPrecision(3)));
    const sign = power < 0 ? "-" : "+";
    return `${Number(mantissa)}e${sign}${String(Math.abs(power)).padStart(2, "0")}`;
  }

  /* Half to even, as Python's format ".0f". */
  const whole = (value) => {
    const floor = Math.floor(value);
    return value - floor === 0.5 ? floor + (floor % 2) : Math.round(value);
  };

  function seconds(time) {
    for (const [factor, unit] of [[1e6, "µs"], [1e3, "ms"]]) {
      const text = general(time * factor);
      if (Number(text) < 1000) return `${text} ${unit}`;
    }
    return time < 1000 ? `${general(time)} s` : `${whole(time)} s`;
  }

  function threeDigits(value) {
    if (!(value >= 1000 && value < 1e9)) return general(value);
    return String(Number(general(value))).replace(/\B(?=(\d{3})+$)/g, ",");
  }

  const bounds = (low, high, text) => (high < Infinity ? `${text(low)} to ${text(high)}` : "no interval");

  function throughput(n, time, products) {
    const rate = (2 * n ** 3 * products) / time;
    return rate >= 1e12 ? `${general(rate / 1e12)} TFLOP/s` : `${general(rate / 1e9)} GFLOP/s`;
  }

  function outside(curve, n) {
    const [least, most] = range(curve);
    return least === most
      ? `N = ${n} differs from the only measured size, N = ${most}`
      : `N = ${n} is outside the measured sizes, N = ${least} to ${most}`;
  }

  /* --- the answer --- */

  function timeLine(result, n, products) {
    const interval = bounds(result.low, result.high, seconds);
    return `${result.kernel.name}: ${seconds(result.time)} (${interval}), ${throughput(n, result.time, products)}`;
  }

  /* Bars of the GPU, in parts, and of the CPU, on one scale: the longer one fills the width. */
  function drawBars(gpu, cpu, parts) {
    const longest = Math.max(gpu.time, cpu.time);
    const bar = (id, shares) =>
      document.getElementById(id).replaceChildren(
        ...shares.map(([name, time]) => {
          const segment = element("span", { className: `part ${name}`, title: `${data.parts[name] ?? "end-to-end"} ${seconds(time)}` });
          segment.style.width = `${(100 * time) / longest}%`;
          return segment;
        }),
      );
    bar("calculator-gpu-bar", parts ? Object.keys(data.parts).map((name) => [name, parts[name]]) : [["whole", gpu.time]]);
    bar("calculator-cpu-bar", [["whole", cpu.time]]);
    document.getElementById("calculator-gpu-time").textContent = seconds(gpu.time);
    document.getElementById("calculator-cpu-time").textContent = seconds(cpu.time);
    // The parts on their own scale, where the bar of the GPU is short.
    const zoomed = Object.entries(parts ?? {}).map(([name, time]) => [name, (100 * time) / gpu.time]);
    document.getElementById("calculator-parts-bar").replaceChildren(
      ...Object.keys(data.parts).filter(() => parts).map((name) => {
        const segment = element("span", { className: `part ${name}` });
        segment.style.width = `${Object.fromEntries(zoomed)[name]}%`;
        return segment;
      }),
    );
    document.getElementById("calculator-key").hidden = !parts;
    for (const name of Object.keys(data.parts)) {
      document.getElementById(`calculator-${name}`).textContent = parts ? seconds(parts[name]) : "";
    }
  }

  function answer() {
    const n = Number(form.elements.n.value);
    const products = Number(form.elements.products.value);
    const memory = form.elements.memory.value;
    const gpu = gpus.get(`${form.elements.gpu.value}|${memory}`);
    const shown = Object.fromEntries(
      ["speedup", "verdict", "times", "break-even", "notes"].map((name) => [name, document.getElementById(`calculator-${name}`)]),
    );
    const result = document.getElementById("calculator-answer");
    const fail = (text) => {
      result.hidden = true;
      shown.notes.replaceChildren(element("li", { textContent: text }));
    };
    const isWhole = (value, most) => Number.isInteger(value) && value >= 1 && value <= most;
    if (!isWhole(n, LARGEST_N)) return fail(`N must be a whole number from 1 to ${LARGEST_N}.`);
    if (!isWhole(products, 1e6)) return fail("The number of products must be a whole number from 1 to 1000000.");
    if (!gpu?.kernels.length) return fail(`There is no fit for ${memory} host memory; record more sizes.`);
    if (n > gpu.largest) return fail(`Three matrices of this size do not fit into the memory of this GPU; use ${gpu.largest} or less.`);
    const found = [false, true].map((isLibrary) => fastest(gpu, n, isLibrary, products)).filter(Boolean);
    const [best] = found;
    if (!best) return fail("No measured implementation can repeat the product.");
    result.hidden = false;
    const own = baselines.get(gpu.recording)?.find(({ id }) => id === form.elements.baseline.value);
    shown.times.replaceChildren(
      ...found.map((each) => element("li", { textContent: timeLine(each, n, products) })),
    );
    const notes = [];
    const measured = best.kernel.runs ?? best.kernel.curve;
    if (!covers(measured, n)) notes.push(`GPU time extrapolated: ${outside(measured, n)}.`);
    if (!own) return fail("No CPU baseline was measured on the host of this GPU.");
    const cpu = onCpu(own, n, gpu.floor, products);
    const ratio = cpu.time / best.time;
    const half = Math.hypot(cpu.half, best.half);
    const [low, high] = [ratio * Math.exp(-half), ratio * Math.exp(half)];
    const isOutside = !covers(cpu.curve, n);
    if (isOutside) notes.push(`* CPU time extrapolated: ${outside(cpu.curve, n)}.`);
    if (best.kernel.mode) notes.push(`${best.kernel.variant} ${best.kernel.mode}.`);
    const mark = isOutside ? "*" : "";
    shown.speedup.textContent = `${threeDigits(ratio)} (${bounds(low, high, threeDigits)})${mark}`;
    const isDecided = low > 1 || high < 1;
    shown.verdict.textContent = !isDecided
      ? `Undecided: ${high < Infinity ? "the interval of the speedup contains 1" : "the speedup has no interval"}`
      : `${low > 1 ? "Yes, the GPU is faster" : "No, the CPU is faster"}`;
    shown["break-even"].textContent = breakEven(gpu, own, products);
    document.getElementById("calculator-cpu-name").textContent = `CPU, ${cpu.name}`;
    document.getElementById("calculator-gpu-name").textContent = `GPU, ${best.kernel.name}`;
    shown.notes.replaceChildren(...notes.map((text) => element("li", { textContent: text })));
    drawBars(best, cpu, split(gpu, best.kernel, n, products));
  }

  /* --- start --- */

  function groups(rows, names) {
    const found = new Map();
    for (const row of rows) {
      const key = names.map((name) => row[name] ?? "").join("|");
      found.set(key, [...(found.get(key) ?? []), row]);
    }
    return [...found.values()];
  }

  const onHost = (row) => row.variant + (row.block_size === null ? "" : ` (B = ${row.block_size})`);

  function makeGpu(row, memory, curves) {
    const fits = data.transfers.filter((fit) => fit.gpu === row.gpu && fit.host_memory === memory);
    const copies = Object.fromEntries(fits.map((fit) => [fit.direction, fit]));
    const found = { kernel: new Map(), total: new Map() };
    for (const { first, curve } of curves) {
      if (first.gpu !== row.gpu || (first.quantity !== "kernel" && first.host_memory !== memory)) continue;
      found[first.quantity].set(`${first.variant}|${first.block_size ?? ""}`, { first, curve });
    }
    const flow = (key) => data.variants[key.split("|")[0]].flow;
    const modelled = [...found.kernel.keys()].filter((key) => flow(key) === "in turn");
    const names = [...new Set([...modelled, ...found.total.keys()])];
    const kernels = names.map((key) => {
      const { first } = found.kernel.get(key) ?? found.total.get(key);
      const isSequential = ["in turn", "prepared"].includes(flow(key));
      const again = isSequential ? found.kernel.get(key)?.curve : undefined;
      const { library, mode } = data.variants[first.variant];
      return {
        ...{ name: data.names[key], variant: first.variant, isLibrary: library, mode, again },
        curve: flow(key) === "in turn" ? again : undefined,
        runs: found.total.get(key)?.curve,
        tile: data.tiles[key],
      };
    });
    const leasts = kernels.filter(({ curve }) => curve).map(({ curve }) => Math.min(...curve.logS));
    const known = curves.filter(({ first }) => first.cpu_baseline && first.recording === row.recording);
    const isFitted = Object.keys(MATRICES).every((part) => copies[part]);
    return {
      ...{ label: row.gpu, memory, recording: row.recording, copies, kernels: isFitted ? kernels : [] },
      multiprocessors: row.multiprocessors,
      launch: row.launch_s || (leasts.length ? Math.exp(Math.min(...leasts)) : 0),
      largest: Math.floor(Math.sqrt(Math.floor(row.memory_bytes / (3 * ELEMENT_BYTES)))),
      floor: known.length ? Math.exp(Math.min(...known.flatMap(({ curve }) => curve.logS))) : 0,
    };
  }

  function fillBaselines() {
    const recording = gpus.get(`${form.elements.gpu.value}|pinned`).recording;
    const chosen = form.elements.baseline.value || "best";
    form.elements.baseline.replaceChildren(
      ...(baselines.get(recording) ?? []).map(({ id }) => new Option(data.baselines[id], id, id === "best", id === chosen)),
    );
  }

  async function start() {
    data = JSON.parse(await inflated(document.getElementById("calculator-data")));
    const rows = data.curves.map((values) =>
      Object.fromEntries(data.columns.map((name, at) => [name, values[at]])),
    );
    const keys = ["recording", "gpu", "quantity", "host_memory", "cpu_baseline", "variant", "block_size", "threads"];
    const curves = groups(rows, keys).map((own) => ({ first: own[0], curve: makeCurve(own) }));
    gpus = new Map(
      data.gpus.flatMap((row) =>
        ["pinned", "pageable"].map((memory) => [`${row.gpu}|${memory}`, makeGpu(row, memory, curves)]),
      ),
    );
    baselines = new Map();
    for (const { first, curve } of curves.filter((each) => each.first.cpu_baseline)) {
      const own = baselines.get(first.recording) ?? Object.keys(data.baselines).map((id) => ({ id, curves: [] }));
      own.find(({ id }) => id === first.cpu_baseline).curves.push({ name: onHost(first), curve });
      baselines.set(first.recording, own);
    }
    for (const [recording, own] of baselines) baselines.set(recording, own.filter((each) => each.curves.length));
    const known = new Set(data.gpus.map((row) => row.gpu));
    form.elements.gpu.append(
      ...Object.entries(data.titles).filter(([label]) => known.has(label)).map(([label, title]) => new Option(title, label)),
    );
    predictions.at = (label, memory, variant, n) => {
      const own = gpus.get(`${label}|${memory}`)?.kernels.filter((kernel) => kernel.variant === variant) ?? [];
      const times = withinReach(own, kernelRange, n).map((kernel) => predict(gpus.get(`${label}|${memory}`), kernel, n, 1).time);
      return times.length ? Math.min(...times) : null;
    };
    fillBaselines();
    form.addEventListener("input", (event) => {
      if (event.target === form.elements.gpu) fillBaselines();
      answer();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    answer();
    form.closest(".calculator").dataset.ready = "";
  }

  start();
})();
