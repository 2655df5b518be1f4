/* The calculator: predicted time, speedup and break-even size for any N. It looks up the table of
   `gemm-study advise` by the rule of analysis/decide/lookup.py, and prints the same digits. */
(() => {
  "use strict";
  const form = document.getElementById("calculator-form");
  if (!form) return;
  const LARGEST_N = 46340;
  const TIMES = ["time", "further", "h2d", "kernel", "d2h", "overhead"]; // columns
  const WIDTHS = ["time_half", "further_half"];
  let data, rows; // unpacked by start()

  /* --- look-up --- */

  /* Rows that one answer compares, by size; those without interval are never the fastest. */
  function tableOf(keeps) {
    const bySize = new Map();
    for (const row of rows.filter((each) => each.time_half !== null && keeps(each))) {
      if (!bySize.has(row.n)) bySize.set(row.n, new Map());
      bySize.get(row.n).set(row.gpu === null ? "" : keyOf(row), row);
    }
    const all = [...bySize.values()].flatMap((at) => [...at.values()]);
    const measured = [Math.min(...all.map((row) => row.least_n)), Math.max(...all.map((row) => row.largest_n))];
    return { bySize, sizes: [...bySize.keys()].sort((a, b) => a - b), measured };
  }

  const keyOf = (row) => `${row.variant}|${row.block_size ?? ""}`;
  const covers = (row, n) => row.least_n <= n && n <= row.largest_n;

  /* The implementations at size N. Between two sizes, log time and half-width are linear in log N. */
  function at({ bySize, sizes }, n) {
    if (bySize.has(n)) return bySize.get(n);
    const place = sizes.findIndex((size) => size > n);
    if (place < 1) return new Map();
    const [least, largest] = [sizes[place - 1], sizes[place]];
    const [low, high] = [bySize.get(least), bySize.get(largest)];
    const share = Math.log(n / least) / Math.log(largest / least);
    const common = [...low].filter(([key]) => high.has(key));
    return new Map(common.map(([key, row]) => [key, between(row, high.get(key), share)]));
  }

  function between(low, high, share) {
    const mixed = { ...high };
    for (const name of TIMES) mixed[name] = high[name] && low[name] ** (1 - share) * high[name] ** share;
    for (const name of WIDTHS) mixed[name] = (1 - share) * low[name] + share * high[name];
    return mixed;
  }

  /* The time of several products with its half-width; on a CPU each takes as long as the first. */
  function total(row, products) {
    if (row.gpu === null || products === 1) return { time: row.time * products, half: row.time_half };
    const further = (products - 1) * row.further;
    const time = row.time + further;
    return { time, half: Math.hypot(row.time * row.time_half, further * row.further_half) / time };
  }

  /* Outside the measured sizes it is the fastest at the nearest one: extrapolated times may cross. */
  function fastest(table, n, products) {
    const atN = at(table, n);
    const ranges = [...atN.values()];
    const least = Math.max(...ranges.map((row) => row.least_n));
    const nearest = Math.min(Math.max(n, least), ...ranges.map((row) => row.largest_n));
    const near = nearest === n ? atN : at(table, nearest);
    let best = null;
    for (const key of atN.keys()) {
      if (!near.has(key)) continue;
      const { time } = total(near.get(key), products);
      if (!best || time < best.time) best = { key, time };
    }
    return best && { row: atN.get(best.key), ...total(atN.get(best.key), products) };
  }

  /* The size from which the products take less time on the GPU, in words. */
  function breakEvenOf(kernels, cpu, products) {
    const least = Math.max(kernels.measured[0], cpu.measured[0]);
    const largest = Math.min(kernels.measured[1], cpu.measured[1]);
    const time = (table, n) => fastest(table, n, products)?.time ?? Infinity;
    let n = largest;
    while (n >= least && time(kernels, n) < time(cpu, n)) n -= 1;
    if (n < least) return `below N = ${least}, the smallest size measured`;
    return n === largest ? `above N = ${largest}, the largest size measured` : `N = ${n + 1}`;
  }

  /* --- numbers as `advise` prints them --- */

  const general = (value) => String(Number(value.toPrecision(3)));

  function seconds(time) {
    for (const [factor, unit] of [[1e6, "µs"], [1e3, "ms"]]) {
      const text = general(time * factor);
      if (Number(text) < 1000) return `${text} ${unit}`;
    }
    return time < 1000 ? `${general(time)} s` : `${Math.round(time)} s`;
  }

  const threeDigits = (value) => general(value).replace(/\B(?=(\d{3})+$)/g, value < 1000 ? "" : ",");

  function bounds({ time, half }, text) {
    const high = time * Math.exp(half);
    return high < Infinity ? `${text(time * Math.exp(-half))} to ${text(high)}` : "no interval";
  }

  function throughput(n, time, products) {
    const rate = (2 * n ** 3 * products) / time;
    return rate >= 1e12 ? `${general(rate / 1e12)} TFLOP/s` : `${general(rate / 1e9)} GFLOP/s`;
  }

  function outside({ least_n, largest_n }, n) {
    return least_n === largest_n
      ? `N = ${n} differs from the only measured size, N = ${largest_n}`
      : `N = ${n} is outside the measured sizes, N = ${least_n} to ${largest_n}`;
  }

  /* --- the answer --- */

  const part = (name) => document.getElementById(`calculator-${name}`);
  const list = (name, texts) =>
    part(name).replaceChildren(...texts.map((text) => element("li", { textContent: text })));

  function drawBar(id, shares, longest) {
    const segments = shares.map(([name, time]) => {
      const title = `${data.parts[name] ?? "end-to-end"} ${seconds(time)}`;
      const segment = element("span", { className: `part ${name}`, title });
      segment.style.width = `${(100 * time) / longest}%`;
      return segment;
    });
    part(id).replaceChildren(...segments);
  }

  /* Bars of the GPU, in parts, and of the CPU, on one scale; below, the parts on their own scale. */
  function drawBars(gpu, cpu, products) {
    const longest = Math.max(gpu.time, cpu.time);
    const further = (products - 1) * gpu.row.further;
    const time = (name) => gpu.row[name] + (name === "kernel" ? further : 0);
    const parts = gpu.row.kernel === null ? [] : Object.keys(data.parts).map((name) => [name, time(name)]);
    drawBar("gpu-bar", parts.length ? parts : [["whole", gpu.time]], longest);
    drawBar("cpu-bar", [["whole", cpu.time]], longest);
    drawBar("parts-bar", parts, gpu.time);
    part("gpu-time").textContent = seconds(gpu.time);
    part("cpu-time").textContent = seconds(cpu.time);
    part("key").hidden = !parts.length;
    for (const [name, value] of parts) part(name).textContent = seconds(value);
  }

  function verdictOf({ time, half }) {
    if (time * Math.exp(-half) > 1) return "Yes, the GPU is faster";
    if (time * Math.exp(half) < 1) return "No, the CPU is faster";
    const isBounded = time * Math.exp(half) < Infinity;
    return `Undecided: ${isBounded ? "the interval of the speedup contains 1" : "the speedup has no interval"}`;
  }

  /* The same implementation on another GPU: two fastest ones may be different implementations. */
  function sameOn(gpu, row, own, products) {
    const name = data.names[keyOf(own)];
    if (!row) return `${gpu.title}: no prediction of ${name}, which was not measured there or is never the fastest.`;
    const there = total(row, products);
    return `${gpu.title}, the same ${name}: ${seconds(there.time)} (${bounds(there, seconds)}).`;
  }

  /* Return why there is no answer, or show it and return nothing. */
  function answer() {
    const [n, products] = ["n", "products"].map((name) => Number(form.elements[name].value));
    const [label, memory, baseline] = ["gpu", "memory", "baseline"].map((name) => form.elements[name].value);
    const gpu = data.gpus.find((each) => each.label === label);
    const isWhole = (value, most) => Number.isInteger(value) && value >= 1 && value <= most;
    if (!isWhole(n, LARGEST_N)) return `N must be a whole number from 1 to ${LARGEST_N}.`;
    if (!isWhole(products, 1e6)) return "The number of products must be a whole number from 1 to 1000000.";
    if (!rows.some((row) => row.gpu === label && row.host_memory === memory)) {
      return `There is no fit for ${memory} host memory; record more sizes.`;
    }
    if (n > gpu.largest) {
      return `Three matrices of this size do not fit into the memory of this GPU; use ${gpu.largest} or less.`;
    }
    const repeats = (row) => products === 1 || row.further !== null;
    const isOnGpu = (row) => row.gpu === label && row.host_memory === memory && repeats(row);
    const [kernels, libraries] = [false, true].map((isLibrary) =>
      tableOf((row) => isOnGpu(row) && data.libraries.includes(row.variant) === isLibrary),
    );
    const found = [kernels, libraries].map((table) => fastest(table, n, products)).filter(Boolean);
    const [best] = found;
    if (!best) return "No measured implementation can repeat the product.";
    const table = tableOf((row) => row.recording === gpu.recording && row.cpu_baseline === baseline);
    if (!table.sizes.length) return "No CPU baseline was measured on the host of this GPU.";
    const cpu = fastest(table, n, products);
    if (!cpu) return "The CPU time is not predicted: it is less than the shortest time measured on the CPU.";
    const speedup = { time: cpu.time / best.time, half: Math.hypot(cpu.half, best.half) };
    const mark = covers(cpu.row, n) ? "" : "*";
    part("verdict").textContent = verdictOf(speedup);
    part("speedup").textContent = `${threeDigits(speedup.time)} (${bounds(speedup, threeDigits)})${mark}`;
    const place = `${label}|${memory}|${baseline}`;
    part("break-even").textContent =
      products > 1 ? breakEvenOf(kernels, table, products) : (data.breakEven[place] ?? "not measured");
    part("cpu-name").textContent = `CPU, ${data.names[keyOf(cpu.row)]}`;
    part("gpu-name").textContent = `GPU, ${data.names[keyOf(best.row)]}`;
    const lineOf = (each) => `${data.names[keyOf(each.row)]}: ${seconds(each.time)} (${bounds(each, seconds)})`;
    list("times", found.map((each) => `${lineOf(each)}, ${throughput(n, each.time, products)}`));
    const mode = data.modes[best.row.variant];
    const elsewhere = data.gpus.filter((each) => each.label !== label).flatMap((other) => {
      const there = tableOf((row) => row.gpu === other.label && row.host_memory === memory && repeats(row));
      return found.map((each) => sameOn(other, at(there, n).get(keyOf(each.row)), each.row, products));
    });
    list("notes", [
      ...(covers(best.row, n) ? [] : [`GPU time extrapolated: ${outside(best.row, n)}.`]),
      ...(mark ? [`* CPU time extrapolated: ${outside(cpu.row, n)}.`] : []),
      ...(mode ? [`${best.row.variant} ${mode}.`] : []),
      ...elsewhere,
    ]);
    drawBars(best, cpu, products);
  }

  function show() {
    const fault = answer();
    part("answer").hidden = Boolean(fault);
    if (fault) list("notes", [fault]);
  }

  /* --- start --- */

  function fillBaselines() {
    const { recording } = data.gpus.find(({ label }) => label === form.elements.gpu.value);
    const known = new Set(rows.filter((row) => row.recording === recording).map((row) => row.cpu_baseline));
    const chosen = form.elements.baseline.value || "best";
    const options = Object.entries(data.baselines).filter(([id]) => known.has(id));
    form.elements.baseline.replaceChildren(
      ...options.map(([id, title]) => new Option(title, id, id === "best", id === chosen)),
    );
  }

  /* Predicted times of a variant in its fastest block size, by N. Only at sizes with rows without
     interval does the table have every variant. */
  predictions.of = (gpu, memory, variant) => {
    const own = rows.filter((row) => row.gpu === gpu && row.host_memory === memory);
    const complete = new Set(own.filter((row) => row.time_half === null).map((row) => row.n));
    const times = new Map();
    for (const row of own.filter((each) => each.variant === variant && complete.has(each.n))) {
      times.set(row.n, Math.min(row.time, times.get(row.n) ?? Infinity));
    }
    return [...times].map(([n, time]) => ({ n, time }));
  };

  async function start() {
    data = JSON.parse(await inflated(document.getElementById("calculator-data")));
    rows = unpacked(data.rows);
    for (const row of rows) for (const name of TIMES) row[name] = row[name] && row[name] * data.time_unit_s;
    form.elements.gpu.append(...data.gpus.map(({ label, title }) => new Option(title, label)));
    fillBaselines();
    form.addEventListener("input", (event) => {
      if (event.target === form.elements.gpu) fillBaselines();
      show();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    show();
    form.closest(".calculator").dataset.ready = "";
  }

  start();
})();
