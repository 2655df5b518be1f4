/* The calculator: predicted time, speedup and break-even size of any product. It looks up the tables of
   `gemm-study advise` by the rules of analysis/decide/lookup.py, for one square product in host memory, and
   of shapes.js, for others. It prints the same digits. */
(() => {
  "use strict";
  const section = document.getElementById("calculator");
  const form = document.getElementById("calculator-form"); // the product; context.js has the rest
  const MOST_ELEMENTS = 2 ** 31 - 1; // of a matrix, so N is at most 46340
  const LONGEST_EDGE = 1e6;
  const LINKED = ["pinned", "a_resident", "c_stays"]; // locations whose copies take the link's whole bandwidth
  const TIMES = ["time", "h2d", "kernel", "d2h", "overhead"]; // columns
  let data, rows, surfaces; // unpacked by start()

  /* --- look-up --- */

  /* Rows that one answer compares, by size; those without interval are never the fastest. */
  function tableOf(keeps) {
    const bySize = new Map();
    for (const row of rows.filter((each) => each.time_half !== null && keeps(each))) {
      if (!bySize.has(row.n)) bySize.set(row.n, new Map());
      bySize.get(row.n).set(row.gpu === null ? "" : keyOf(row), row);
    }
    return { bySize, sizes: [...bySize.keys()].sort((a, b) => a - b) };
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
    mixed.time_half = (1 - share) * low.time_half + share * high.time_half;
    return mixed;
  }

  /* Outside the measured sizes it is the fastest at the nearest one: extrapolated times may cross. */
  function fastest(table, n) {
    const atN = at(table, n);
    const ranges = [...atN.values()];
    const least = Math.max(...ranges.map((row) => row.least_n));
    const nearest = Math.min(Math.max(n, least), ...ranges.map((row) => row.largest_n));
    const near = nearest === n ? atN : at(table, nearest);
    const keys = [...atN.keys()].filter((key) => near.has(key));
    if (!keys.length) return null;
    return atN.get(keys.reduce((best, key) => (near.get(key).time < near.get(best).time ? key : best)));
  }

  /* --- numbers as `advise` prints them --- */

  const general = (value) => String(Number(value.toPrecision(3)));

  function seconds(time) {
    for (const [factor, unit] of [
      [1e6, "µs"],
      [1e3, "ms"],
    ]) {
      const text = general(time * factor);
      if (Number(text) < 1000) return `${text} ${unit}`;
    }
    return time < 1000 ? `${general(time)} s` : `${Math.round(time)} s`;
  }

  const threeDigits = (value) => general(value).replace(/\B(?=(\d{3})+$)/g, value < 1000 ? "" : ",");

  /* `half` is the half-width of the interval, above its middle if `below` has that below it. */
  function bounds({ time, half, below = half, least = 0 }, text) {
    if (half > data.widest) return "no interval";
    const low = Math.max(time * Math.exp(-below), least);
    return `${low === time ? "at most" : `${text(low)} to`} ${text(time * Math.exp(half))}`;
  }

  /* The highest throughput measured with an arithmetic, of which runs of kernels over long_s keep a share. */
  function limitOf(gpu, variant) {
    const [rate, share] = gpu.limits[data.tensor.includes(variant) ? 1 : 0];
    return { rate: rate ?? Infinity, share, sustained: (time) => (time > data.long_s ? time / share : time) };
  }

  /* Whether loads of square matrices cannot be aligned, and no such matrices of this size were measured. */
  const isUnaligned = ([m, n, k], gpu) => isSquare([m, n, k]) && n % data.aligned > 0 && !gpu.unaligned.includes(n);

  /* A prediction for the products, raised to this limit, and the least time possible. Its interval includes
     the unknown effect of sizes to which loads cannot be aligned. `kernel` is the time of one kernel. */
  function within(predicted, gpu, variant, { shape, run }, isOutside, kernel) {
    const { rate, share, sustained } = limitOf(gpu, variant);
    const [m, n, k] = shape;
    const least = (2 * m * n * k * run.products) / rate;
    const time = Math.max(predicted.time, isOutside ? least / share : sustained(least));
    if (!isUnaligned(shape, gpu)) return { ...predicted, time, least };
    const ofKernel = Math.min(Math.max(run.products * kernel, least) / time, 1);
    const half = Math.hypot(predicted.half, Math.log1p(ofKernel * Math.expm1(gpu.unalignedHalf)));
    return { time, least, half };
  }

  function throughput([m, n, k], time, products) {
    const rate = (2 * m * n * k * products) / time;
    return rate >= 1e12 ? `${general(rate / 1e12)} TFLOP/s` : `${general(rate / 1e9)} GFLOP/s`;
  }

  function outside({ least_n, largest_n }, n) {
    return least_n === largest_n
      ? `N = ${n} differs from the only size of its fit, N = ${largest_n}`
      : `N = ${n} is outside the sizes of its fit, N = ${least_n} to ${largest_n}`;
  }

  const NOTES = {
    noCpu:
      "The CPU time is not predicted: either it is shorter than any measured time, so the CPU wins, " +
      "or too few sizes were measured.",
    noShapes:
      "This CPU program was not measured at enough shapes that are not square; choose another baseline, such as the " +
      "fastest CPU implementation.",
    bound:
      "“At most” and “at least”: the time is predicted for a run that copies more, “as from” another location, or " +
      "whose launches take as long as with copies. It bounds the time asked for; parentheses give its interval.",
    b: "To keep B on the GPU instead of A, exchange M and N, because the transposed product is Cᵀ = BᵀAᵀ.",
    any:
      "Any arithmetic: strict FP32, or float32 products from three 16-bit products on tensor cores. TF32, FP16 and " +
      "BF16 are excluded.",
    outside: "Its kernels are taken to reach at most the throughput sustained at the power limit.",
    noLink:
      "The bandwidth of the link can be varied for data in pinned memory only: elsewhere, copies by the CPU or page " +
      "faults are the limit, or nothing is copied.",
    link:
      "The link is assumed to be slower than the measured one, and its copies to take longer in proportion. The " +
      "interval does not include this assumption. Pipelined runs may be faster if their kernel is the limit.",
    streams: "On several streams, only cuBLAS in strict FP32 was measured; choose its arithmetic, or one stream.",
    squares: "Pipelined, staged and zero-copy runs can be faster, but are predicted for square products only.",
    products:
      "Each product is a launch of its own; batched calls were not measured. On several streams, only cuBLAS is " +
      "predicted; “measured” marks times of batches in throughput.csv, which can differ from predictions at " +
      "other numbers of products.",
  };

  /* The time of a new process, and whether it makes the CPU the faster one. */
  function startOf({ notes: { start, start_s: time } }, gpu, cpu) {
    const isReversed = gpu.time < cpu.time && gpu.time + time > cpu.time;
    return [start, ...(isReversed ? [`${data.reversed}.`] : [])].join(" ");
  }

  /* Notes on the sizes and shapes for which a prediction is less certain. */
  function reachOf({ shape, run, gpu, arithmetic }, isSimple, { isMeasured, outside }) {
    const [, n] = shape;
    const notes = isUnaligned(shape, gpu) ? [gpu.notes.unaligned] : [];
    if (isSimple) {
      const later = data.measuredLater[[gpu.label, run.place, arithmetic].join("|")].filter(([size]) => n < size);
      return [...later.map(([, text]) => text), ...notes];
    }
    const tested = run.products > 1 ? data.batches : gpu.notes.unseen[run.place];
    return [...(isMeasured || (outside && run.products === 1) || run.link < 1 ? [] : [tested]), ...notes];
  }

  /* --- the answer --- */

  const part = (name) => document.getElementById(`calculator-${name}`);
  const list = (name, texts) =>
    part(name).replaceChildren(...texts.map((text) => element("li", { textContent: text })));

  /* The kernel of a name, whose meaning is at hand, and its block size or threads. */
  function named(name) {
    const [, kernel, rest] = /^(\w+)(.*)$/.exec(name);
    return [element("code", { textContent: kernel, tabIndex: 0 }), rest];
  }

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
  function drawBars(gpu, cpu) {
    const longest = Math.max(gpu.time, cpu.time);
    const parts = gpu.parts ? Object.keys(data.parts).map((name) => [name, gpu.parts[name]]) : [];
    drawBar("gpu-bar", parts.length ? parts : [["whole", gpu.time]], longest);
    drawBar("cpu-bar", [["whole", cpu.time]], longest);
    drawBar("parts-bar", parts, gpu.time);
    part("gpu-time").textContent = seconds(gpu.time);
    part("cpu-time").textContent = seconds(cpu.time);
    part("key").hidden = !parts.length;
    for (const [name, value] of parts) part(name).textContent = seconds(value);
  }

  function verdictOf({ time, half, below }, isBound) {
    if (time * Math.exp(-below) > 1) return "Yes, the GPU is faster";
    if (time * Math.exp(half) < 1 && isBound) return "Undecided: only a lower bound of the speedup is known";
    if (time * Math.exp(half) < 1) return "No, the CPU is faster";
    const isBounded = half <= data.widest;
    return `Undecided: ${isBounded ? "the interval of the speedup contains 1" : "the speedup has no interval"}`;
  }

  /* The same implementation on another GPU: two fastest ones may be different implementations. */
  function sameOn(gpu, { variant, name, on }, asked) {
    const [there, isStale] = [on(gpu), asked.gpu.stale.includes(variant)];
    if (!there) return `${gpu.title}: no prediction of ${name}, which was not measured there or is never the fastest.`;
    const which = isStale || gpu.stale.includes(variant) ? "perhaps another version of " : "";
    const time = `${seconds(there.time)} (${bounds(there, seconds)})`;
    return `${gpu.title}: ${time} with ${which}${name}, which need not be the fastest there.`;
  }

  /* The fastest implementation on another GPU. */
  function fastestOn(gpu, asked) {
    const [one] = fastestOf(placed({ ...asked, gpu }));
    if (!one) return `${gpu.title}: not measured.`;
    const most = one.isBound ? "at most " : "";
    return `${gpu.title}: ${most}${seconds(one.time)} (${bounds(one, seconds)}) with ${one.name}, the fastest there.`;
  }

  /* An answer has the fastest implementation of this study and that of a library, the faster one first, the
     one on the CPU, and the break-even size. Each implementation has time, half-width, the least possible time and
     name; for a simple question, on(gpu) is it on another GPU. */
  const byTime = (found) => found.sort((one, other) => one.time - other.time);

  /* Predicted time and half-width of consecutive runs; `missing` where none is predicted. */
  const timed = (row, { products }, missing) =>
    row ? { time: products * row.time, half: row.time_half } : { time: missing, half: 0 };

  const isSquare = (shape) => shape.every((edge) => edge === shape[0]);
  const isInHost = ({ place }) => ["pinned", "pageable"].includes(place);
  /* The surface of runs at a location, whose copies have the bandwidth of the link; undefined if not measured. */
  const copiesOn = (gpu, { place }) => surfaces.onGpu(gpu.label, [1, 1, 1], place)[0]?.places[place];

  /* Seconds by which a slower link prolongs the copies of one product to the GPU and back. */
  function delays(gpu, run, shape) {
    const added = 1 / run.link - 1;
    return added ? shapes.copies(copiesOn(gpu, run), shape).map((time) => time * added) : [0, 0];
  }

  const rowsOn = (gpu, run) => (row) => row.gpu === gpu.label && row.host_memory === run.place;

  /* Runs of one square product each, one after the other: this study's implementations and libraries, by size. */
  function runsOnGpu({ gpu, run, takes }) {
    const isAsked = (row) => rowsOn(gpu, run)(row) && takes(row.variant);
    const isOfLibrary = (row) => data.libraries.includes(row.variant);
    return [false, true].map((side) => tableOf((row) => isAsked(row) && isOfLibrary(row) === side));
  }

  const runsOnCpu = (gpu, baseline) =>
    tableOf((row) => row.recording === gpu.recording && row.cpu_baseline === baseline);

  /* The runs that are the fastest in a table, or null. */
  function fastestRuns(table, asked) {
    const { shape, run } = asked;
    const [n] = shape;
    const row = fastest(table, n);
    const ofRow = (one) => {
      const gpu = data.gpus.find(({ label }) => label === one.gpu);
      const [into, out] = gpu ? delays(gpu, run, shape) : [0, 0];
      // Copies that overlap prolong a run less, at most in proportion.
      const predicted = timed({ ...one, time: Math.min(one.time + into + out, one.time / run.link) }, run);
      return gpu ? within(predicted, gpu, one.variant, asked, !covers(one, n), one.kernel ?? 0) : predicted;
    };
    return (
      row && {
        ...ofRow(row),
        variant: row.variant,
        name: data.names[keyOf(row)] + (row.gpu && run.products > 1 ? ", one run after the other" : ""),
        parts: row.kernel === null || run.products > 1 ? null : partsOf(row, asked),
        outside: covers(row, n) ? null : outside(row, n),
        on: (other) => [at(tableOf(rowsOn(other, run)), n).get(keyOf(row))].filter(Boolean).map(ofRow)[0],
      }
    );
  }

  function partsOf(row, { gpu, run, shape }) {
    const [into, out] = delays(gpu, run, shape);
    return { ...row, h2d: row.h2d + into, d2h: row.d2h + out };
  }

  /* For one square product in host memory. */
  function answerBySize(asked, baseline) {
    const tables = runsOnGpu(asked);
    const gpus = tables.map((table) => fastestRuns(table, asked)).filter(Boolean);
    const cpu = fastestRuns(runsOnCpu(asked.gpu, baseline), asked);
    const names = [asked.gpu.label, asked.run.place, baseline, asked.arithmetic];
    const even = data.breakEven[names.join("|")] ?? data.noBreakEven;
    return { gpus: byTime(gpus), cpu, even };
  }

  function rangeOf({ bySize }) {
    const measured = [...bySize.values()].flatMap((atN) => [...atN.values()]);
    return [Math.min(...measured.map((row) => row.least_n)), Math.max(...measured.map((row) => row.largest_n))];
  }

  /* Times of a CPU baseline at any shape, and the range of its longest edges; null if not measured. */
  function timesOnCpu(asked, baseline) {
    const { shape, run, gpu } = asked;
    const table = runsOnCpu(gpu, baseline);
    if (isSquare(shape)) {
      const predicted = ([n]) => timed(fastest(table, n), run, 0); // shorter than any measured time
      return table.sizes.length ? { answer: fastestRuns(table, asked), predicted, range: rangeOf(table) } : null;
    }
    const surface = surfaces.onCpu(gpu.recording, baseline, shape);
    if (!surface) return null;
    const at = (other) => shapes.onCpu(surface, other, run);
    const answer = { ...at(shape), name: surfaces.nearest(surface, shape), outside: far(surface, shape) };
    const [isThere, ofShape] = [`${gpu.label}|`, `|${shape.join("|")}`];
    const key = Object.keys(data.measured.times).find((one) => one.startsWith(isThere) && one.endsWith(ofShape));
    const [, , , measured] = data.measured.times[key] ?? [];
    if (baseline === "best" && measured) answer.time = run.products * measured;
    return { answer, predicted: at, range: shapes.longestEdges(surface) };
  }

  const far = (surface, [m, n, k]) =>
    shapes.isFar(surface, [m, n, k]) ? `${m}x${k}x${n} is far from the shapes measured` : null;

  /* The implementations at the location asked and at those that bound it: predicted(shape) and the answer. */
  function placed(asked) {
    const { shape, run } = asked;
    const all = data.bounding[run.place].map((place) => ({ ...asked, run: { ...run, place } }));
    const { locations } = data.shapes.rules;
    const isBounding = (place) => place !== run.place || (run.products > 1 && !locations[place].has_copies);
    const bound = (answer, { run: { place } }) => {
      const from = place === run.place ? "" : `, as from ${context.title("location", place)}`;
      return answer && { ...answer, name: answer.name + from, isBound: isBounding(place) };
    };
    const kernels = all.flatMap((there) =>
      kernelsAt(there)
        .map((one) => ofKernel(one, there))
        .map((one) => ({
          ...one,
          answer: bound(one.answer, there),
          predicted: (other) => ({ ...one.predicted(other), isBound: isBounding(there.run.place) }),
          isPinned: there.run.place === "pinned",
        })),
    );
    const hasRuns = (there) => isSquare(shape) && isInHost(there.run);
    const runs = all.filter(hasRuns).flatMap((there) =>
      runsOnGpu(there)
        .filter(({ sizes }) => sizes.length)
        .map((table) => {
          const answer = fastestRuns(table, there);
          const isBound = isBounding(there.run.place);
          const predicted = ([n]) => {
            const [into, out] = delays(there.gpu, there.run, [n, n, n]);
            const { time, half } = timed(fastest(table, n), run, Infinity);
            return { time: time + run.products * (into + out), half, isBound };
          };
          return { answer: bound(answer, there), predicted };
        }),
    );
    const pinned = all.filter((there) => there.run.place === "pinned");
    const batches = pinned.flatMap((there) => batchesOf(there).map((answer) => bound(answer, there)));
    return { kernels, all: [...kernels, ...runs], batches };
  }

  /* The measured batches of these products. */
  function batchesOf({ gpu, shape, run, takes }) {
    const key = [gpu.label, ...shape, run.streams, run.products, run.independent ? "False" : "True"].join("|");
    const measured = (run.products > 1 && run.link === 1 && data.measured.batches[key]) || [];
    const ofProducts = (one) => ({ ...one, time: run.products * one.time, outside: null, isMeasured: true });
    return measured.filter(({ variant }) => takes(variant)).map(ofProducts);
  }

  function kernelsAt({ gpu, shape, run, takes }) {
    const isBatch = run.products > 1 && run.place === "pinned"; // kernels that prepare operands have no batches
    const isAble = ({ variant, batch }) =>
      !(isBatch && data.prepared.includes(variant)) && (run.streams === 1 || batch);
    const withLink = (one) => ({ ...one, places: { [run.place]: shapes.slower(one.places[run.place], run.link) } });
    const kernels = surfaces.onGpu(gpu.label, shape, run.place).filter((one) => takes(one.variant) && isAble(one));
    return kernels.map(withLink);
  }

  function ofKernel(one, there) {
    const { shape, run, gpu } = there;
    const predicted = (other) => shapes.onGpu(one, other, run, limitOf(gpu, one.variant));
    const key = [gpu.label, one.variant, run.place, ...shape].join("|");
    const [measured, half, below] = (run.products === 1 && run.link === 1 && data.measured.times[key]) || [];
    const ofShape = measured ? { time: measured, half, below } : predicted(shape);
    const outside = far(one.places[run.place], shape);
    const answer = {
      ...within(ofShape, gpu, one.variant, there, Boolean(outside), shapes.timeOf(one.kernel, shape)),
      variant: one.variant,
      name: one.variant,
      outside,
      isMeasured: Boolean(measured),
    };
    return { answer, predicted, range: shapes.longestEdges(one.places[run.place]) };
  }

  /* The fastest implementations of this study and of a library, the faster one first. */
  function fastestOf({ all, batches }) {
    const isMeasured = ({ answer, isPinned }) => isPinned && batches.some(({ variant }) => variant === answer?.variant);
    const predicted = all.filter((one) => !isMeasured(one)).map(({ answer }) => answer);
    const answered = byTime([...predicted.filter(Boolean), ...batches]);
    const sides = [false, true].map((side) => answered.find((one) => data.libraries.includes(one.variant) === side));
    return byTime(sides.filter(Boolean));
  }

  function answerByShape(asked, baseline) {
    const { shape, run, gpu } = asked;
    const runs = placed(asked);
    const { kernels, all } = runs;
    const gpus = fastestOf(runs);
    const cpu = timesOnCpu(asked, baseline);
    if (!gpus.length || !cpu) return { gpus, cpu: null, even: "" };
    const family = isSquare(shape) ? "square" : shape[1] === 1 && shape[0] === shape[2] ? "matrix-vector" : "";
    const isMeasured = run.products === 1 && run.link === 1 && asked.arithmetic === "any" && baseline === "best";
    const measured = isMeasured && data.measured.break_even[[gpu.label, run.place, family].join("|")];
    const onGpu = (other) => byTime(all.map((one) => one.predicted(other)))[0];
    const ranges = [...kernels.map(({ range }) => range), cpu.range];
    return { gpus, cpu: cpu.answer, even: measured || shapes.breakEven(shape, onGpu, cpu.predicted, ranges) };
  }

  const unmeasured = ({ gpu, run, arithmetic }) =>
    run.streams > 1 && arithmetic === "tensor"
      ? NOTES.streams
      : `On ${gpu.title}, too few shapes were measured for this question. Predictable are square products ` +
        "(M = K = N) from pinned or pageable memory on one stream; make report STUDY=full on this GPU measures the " +
        "rest.";

  /* The products asked for, in words. */
  function productsOf({ products, streams, independent }) {
    const over = streams > 1 ? ` over ${streams} streams` : "";
    return products > 1
      ? `, ${products} ${independent ? "independent products" : "products with the same A"}${over}`
      : "";
  }

  /* What the form asks, or why it cannot be answered. */
  function question() {
    const value = (name) => form.elements[name].value;
    const [products, streams] = ["products", "streams"].map((name) => Number(value(name)));
    const n = Number(context.value("n"));
    const shape = [Number(value("m") || n), n, Number(value("k") || n)];
    const run = { place: context.value("location"), products, streams, independent: value("a") === "independent" };
    run.link = Number(value("link")) / 100;
    const gpu = data.gpus.find((each) => each.label === context.value("gpu"));
    if (!gpu) return { fault: `Nothing is predicted for ${context.title("gpu")}.` };
    const arithmetic = value("arithmetic");
    const isWhole = (number, most) => Number.isInteger(number) && number >= 1 && number <= most;
    if (!shape.every((edge) => isWhole(edge, LONGEST_EDGE))) {
      return { fault: `M, N and K must be whole numbers from 1 to ${LONGEST_EDGE}.` };
    }
    const [m, , k] = shape;
    if (Math.max(m * k, k * n, m * n) > MOST_ELEMENTS) {
      return {
        fault: `A matrix must have at most ${MOST_ELEMENTS} elements, the limit of kernels; a square one, N = 46340.`,
      };
    }
    for (const [name, count] of [
      ["products", products],
      ["streams", streams],
    ]) {
      if (!isWhole(count, 1e6)) return { fault: `The number of ${name} must be a whole number from 1 to 1000000.` };
    }
    if (streams > 1 && run.place !== "pinned") {
      return { fault: "Copies overlap only if all matrices are in pinned memory; choose it, or one stream." };
    }
    if (!(run.link > 0 && run.link <= 1)) return { fault: "The link's bandwidth must be from 1 to 100 %." };
    if (run.link < 1 && !(LINKED.includes(run.place) && copiesOn(gpu, run))) return { fault: NOTES.noLink };
    if (4 * (m * k + k * n + m * n) > gpu.memory_bytes) {
      const most = `use ${gpu.largest} or less`;
      return { fault: `Three matrices of this size do not fit into the memory of this GPU; ${most}.` };
    }
    const takes = (variant) => arithmetic === "any" || data.tensor.includes(variant) === (arithmetic === "tensor");
    return { shape, run, gpu, arithmetic, takes };
  }

  function arithmeticOf() {
    const [chosen] = form.elements.arithmetic.selectedOptions;
    return chosen.value === "any" ? "any arithmetic" : chosen.text;
  }

  /* Return why there is no answer, or show it and return nothing. */
  function answer() {
    const asked = question();
    if (asked.fault) return asked.fault;
    const { shape, run } = asked;
    const hasRuns = isSquare(shape) && isInHost(run);
    const isSimple = hasRuns && run.products === 1 && run.streams === 1 && run.link === 1;
    const baseline = context.cpu();
    const { gpus, cpu, even } = (isSimple ? answerBySize : answerByShape)(asked, baseline);
    if (!gpus.length) return unmeasured(asked);
    if (!cpu) return isSquare(shape) ? NOTES.noCpu : NOTES.noShapes;
    const [best] = gpus;
    const [half, below] = [Math.hypot(cpu.half, best.below ?? best.half), Math.hypot(cpu.half, best.half)];
    const speedup = { time: cpu.time / best.time, half, below };
    const mark = cpu.outside ? "*" : "";
    part("verdict").textContent = verdictOf(speedup, best.isBound);
    const least = best.isBound ? "at least " : "";
    part("speedup").textContent = `${least}${threeDigits(speedup.time)} (${bounds(speedup, threeDigits)})${mark}`;
    const [m, n, k] = shape;
    const size = m === n && n === k ? `N = ${n}` : `M×K×N = ${m}×${k}×${n}`;
    const without = isInHost(run) && !hasRuns ? ", without pipelined or staged copies" : "";
    part("asked").textContent = `${size}${productsOf(run)}, ${context.title("location")}, ${arithmeticOf()}${without}`;
    part("over").textContent = context.title("baseline", baseline === "best" ? "fastest-cpu" : `cpu-${baseline}`);
    const kept = isSquare(shape) ? "" : ", at the same proportions";
    part("break-even").textContent = (best.isBound && /^[Nl]/.test(even) ? "at most " : "") + even + kept;
    const most = data.oneThread.includes(baseline) ? 1 : asked.gpu.threads;
    const threads = /thread/.test(cpu.name) ? "" : most > 1 ? `, up to ${most} threads` : ", 1 thread";
    part("cpu-name").replaceChildren("CPU, ", ...named(cpu.name + threads));
    part("gpu-name").replaceChildren("GPU, ", ...named(best.name));
    const lineOf = (one) =>
      `${one.name}: ${one.isBound ? "at most " : ""}${seconds(one.time)} (${bounds(one, seconds)})`;
    list(
      "times",
      gpus.map((one) => `${lineOf(one)}, ${throughput(shape, one.time, run.products)}`),
    );
    const mode = data.modes[best.variant];
    const others = data.gpus.filter((gpu) => gpu !== asked.gpu);
    const notes = [
      ...(asked.arithmetic === "any" ? [NOTES.any] : []),
      ...(best.outside ? [`GPU time extrapolated: ${best.outside}. ${NOTES.outside}`] : []),
      ...(mark ? [`* CPU time extrapolated: ${cpu.outside}.`] : []),
      ...(mode ? [`${best.variant} ${mode}.`] : []),
      ...(isInHost(run) && !hasRuns ? [NOTES.squares] : []),
      ...reachOf(asked, isSimple, best),
      ...(run.link < 1 ? [NOTES.link] : []),
      startOf(asked.gpu, best, cpu),
      ...(run.products > 1 ? [NOTES.products] : []),
      ...(run.place === "a_resident" || (run.products > 1 && !run.independent) ? [NOTES.b] : []),
      ...(gpus.some(({ isBound }) => isBound) ? [NOTES.bound] : []),
      ...others.flatMap((gpu) => (isSimple ? gpus.map((one) => sameOn(gpu, one, asked)) : [fastestOn(gpu, asked)])),
    ];
    list("notes", notes.filter(Boolean));
    drawBars(best, cpu);
  }

  function show() {
    const fault = answer();
    part("answer").hidden = Boolean(fault);
    if (fault) list("notes", [fault]);
  }

  /* --- start --- */

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

  const NAMES = [...form.elements].map(({ name }) => name);

  /* Keep the product in the address. */
  function save() {
    const changed = [...form.elements].filter((control) => control.value !== control.dataset.first);
    setAddress(
      Object.fromEntries(NAMES.map((name) => [name, changed.find((one) => one.name === name)?.value ?? null])),
    );
  }

  function restore() {
    const query = new URLSearchParams(location.search);
    for (const control of form.elements) {
      control.dataset.first = control.value;
      const value = query.get(control.name);
      const isOffered = !control.options || [...control.options].some((option) => option.value === value);
      if (value !== null && isOffered) control.value = value;
    }
    form.closest("details").open = NAMES.some((name) => query.has(name));
  }

  async function start() {
    data = JSON.parse(await inflated(document.getElementById("calculator-data")));
    if (!data.gpus.length) return;
    rows = unpacked(data.rows);
    surfaces = shapes.read(data.shapes);
    for (const row of rows) for (const name of TIMES) row[name] = row[name] && row[name] * data.time_unit_s;
    restore();
    form.addEventListener("input", () => {
      save();
      show();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    document.addEventListener("context", show);
    section.hidden = false;
    show();
    section.dataset.ready = "";
  }

  start();
})();
