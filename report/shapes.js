/* Predicted times of products of any shape, from surfaces, by the rules of
   analysis/decide/surfaces.py. A shape is [m, n, k]. */
const shapes = (() => {
  "use strict";
  let rules; // constants of the Python module

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const overlapped = (a, b, share) => Math.max(a, b) + (1 - share) * Math.min(a, b);

  /* The least FMAs of full waves of blocks over usual tiles and divisions of K. */
  function scheduled([m, n, k], multiprocessors) {
    const counts = rules.tiles.flatMap(([rows, columns]) => {
      const blocks = Math.ceil(m / rows) * Math.ceil(n / columns);
      const perWave = multiprocessors * (rows * columns + rules.load_fma * (rows + columns)) * k;
      return rules.pieces_of_k.map((pieces) => (Math.ceil((blocks * pieces) / multiprocessors) / pieces) * perWave);
    });
    return Math.min(...counts);
  }

  /* Bytes that move to the GPU and back. */
  function moved([m, n, k], place) {
    const { copied_in: names, copies_out: isOut } = rules.locations[place ?? "pinned"];
    const into = (names.includes("a") ? m * k : 0) + (names.includes("b") ? k * n : 0);
    return [4 * into, isOut ? 4 * m * n : 0];
  }

  function terms(surface, shape) {
    const [m, n, k] = shape;
    const full = surface.multiprocessors ? scheduled(shape, surface.multiprocessors) : 0;
    const amounts = [1, k, ...moved(shape, surface.place), m * n * k, full];
    return amounts.map((amount, i) => amount * surface.coefficients[i]);
  }

  const distances = ({ nodes }, shape) =>
    nodes.map((node) => Math.hypot(...shape.map((edge, i) => Math.log2(edge / node[i]))));
  const elements = ([m, n, k]) => m * k + k * n + m * n;

  function correlation(distance, octaves) {
    const scaled = (Math.sqrt(3) * distance) / octaves;
    return (1 + scaled) * Math.exp(-scaled);
  }

  /* Correlations with the measured shapes. */
  function similarity(surface, shape) {
    const { nodes, octaves, size_share: share } = surface;
    return distances(surface, shape).map((distance, i) => {
      const size = Math.abs(Math.log2(elements(shape) / elements(nodes[i])));
      return (1 - share) * correlation(distance, octaves) + share * correlation(size, octaves);
    });
  }

  function timeOf(surface, shape, kernel = 0) {
    const log = sum(similarity(surface, shape).map((similar, i) => surface.weights[i] * similar));
    const powers = terms(surface, shape).map((term) => term ** surface.power);
    return (sum(powers) ** (1 / surface.power) + kernel) * Math.exp(log);
  }

  /* Half the width of the 95 % prediction interval, in logarithms. */
  function halfOf(surface, shape, time) {
    const [m, n, k] = shape;
    const kind = m === n && n === k ? "square" : Math.min(m, n) === 1 ? "vector" : "other";
    const near = Math.max(...similarity(surface, shape));
    const fitted = surface.errors[kind] * Math.sqrt(surface.noise + 1 - near ** 2);
    return Math.hypot(fitted, surface.session_share, surface.session_s / time);
  }

  const isSquare = ([m, n, k]) => m === n && n === k;
  const hasShapes = ({ nodes }) => nodes.filter((node) => !isSquare(node)).length >= 6;
  const isFar = (surface, shape) =>
    Math.min(...distances(surface, shape)) > rules.far_octaves || Math.max(...shape) > longestEdges(surface)[1];

  /* Times of the copies to the GPU and back, without latency. */
  function copies({ place, coefficients }, shape) {
    const [into, out] = moved(shape, place);
    return [into * coefficients[2], out * coefficients[3]];
  }

  /* A surface of runs whose copies have this share of the bandwidth. */
  function slower(surface, share) {
    const coefficients = surface.coefficients.map((each, i) => (i === 2 || i === 3 ? each / share : each));
    return { ...surface, coefficients };
  }

  /* The time by which one more product of a run prolongs it. */
  function oneMore(one, shape, run, kernel) {
    const whole = one.places[run.place];
    const [m, , k] = shape;
    const isCopied = !run.independent && rules.locations[run.place].copied_in.includes("a");
    const [into, out] = moved(shape, run.place);
    const copies = [(into - (isCopied ? 4 * m * k : 0)) * whole.coefficients[2], out * whole.coefficients[3]];
    const there = rules.locations[run.place];
    const batch = there.memory === "pinned" && one.batch;
    if (!batch) {
      const time = whole.coefficients[0] + sum(copies) + kernel;
      return { time, half: halfOf(whole, shape, time) };
    }
    if (!there.has_copies) {
      const half = Math.hypot(batch.half_width, halfOf(one.kernel, shape, kernel));
      return { time: Math.max(kernel, batch.issue_s), half };
    }
    const alone = batch.alone_s + sum(copies);
    const copied = Math.max(batch.latency_s + overlapped(...copies, batch.duplex), alone / run.streams);
    const gpu = Math.max(overlapped(copied, kernel, batch.overlap), (alone + kernel) / run.streams);
    const time = Math.max(gpu, batch.issue_s);
    const slope = gpu < batch.issue_s ? 0 : kernel > copied ? 1 : Math.max(1 - batch.overlap, 1 / run.streams);
    const ofKernel = ((slope * kernel) / time) * halfOf(one.kernel, shape, kernel);
    return { time, half: Math.hypot(batch.half_width, ofKernel) };
  }

  /* The limit of kernels: the highest throughput, of which long runs keep a share. */
  const NO_LIMIT = { rate: Infinity, sustained: (time) => time };

  /* Time and half-width of a run on the GPU, with the throughput within the limit. */
  function onGpu(one, shape, run, limit = NO_LIMIT) {
    const whole = one.places[run.place];
    const [m, n, k] = shape;
    const kernel = Math.max(timeOf(one.kernel, shape), (2 * m * n * k) / limit.rate);
    const first = timeOf(whole, shape, kernel);
    const half = halfOf(whole, shape, first);
    const least = limit.sustained(run.products * kernel);
    if (run.products === 1) return { time: Math.max(first, least), half };
    const more = oneMore(one, shape, run, kernel);
    const others = (run.products - 1) * more.time;
    const time = Math.max(first + others, least);
    return { time, half: Math.hypot(first * half, others * more.half) / (first + others) };
  }

  function onCpu(surface, shape, run) {
    const time = timeOf(surface, shape);
    return { time: run.products * time, half: halfOf(surface, shape, time) };
  }

  /* The longest edges of the smallest and of the largest measured shape. */
  function longestEdges({ nodes }) {
    const edges = nodes.map((node) => Math.max(...node));
    return [Math.min(...edges), Math.max(...edges)];
  }

  /* The longest edge from which products of these proportions take less time on the GPU, in words. onGpu and
     onCpu return time and half-width at a shape (onGpu: isBound, too), within all `ranges` of longest edges. The
     interval has the edges that these intervals leave undecided. */
  function breakEven(shape, onGpu, onCpu, ranges) {
    const name = isSquare(shape) ? "N" : "longest edge";
    const least = Math.max(...ranges.map(([low]) => low));
    const largest = Math.min(...ranges.map(([, high]) => high));
    const scaled = (edge) => {
      const scaledTo = (size) => Math.max(Math.floor(edge * (size / Math.max(...shape)) + 0.5), 1);
      return shape.map((size) => (size === 1 ? 1 : scaledTo(size))); // as the Python module rounds
    };
    const slowerAt = (edge, widths) => {
      const [gpu, cpu] = [onGpu(scaled(edge)), onCpu(scaled(edge))];
      return gpu.time * Math.exp(widths * Math.min(Math.hypot(gpu.half, cpu.half), 700)) >= cpu.time;
    };
    const count = Math.ceil(rules.steps_per_octave * Math.log2(largest / least));
    const grid = Array.from({ length: count + 1 }, (_, i) =>
      Math.floor(least * (largest / least) ** (i / count) + 0.5),
    );
    const fasterFrom = (widths) => {
      let place = grid.length - 1;
      while (place >= 0 && !slowerAt(grid[place], widths)) place -= 1;
      if (place < 0) return 0;
      if (place === grid.length - 1) return Infinity;
      let edge = grid[place + 1] - 1;
      while (!slowerAt(edge, widths)) edge -= 1;
      return edge + 1;
    };
    const [edge, low, high] = [0, -1, 1].map(fasterFrom);
    if (edge === 0) return `below ${name} = ${least}, the smallest size measured`;
    if (edge === Infinity) return `none up to ${name} = ${largest}, the largest size measured`;
    const most = onGpu(scaled(edge)).isBound ? "at most " : "";
    return `${most}${name} = ${edge} (${low || `below ${least}`} to ${high < Infinity ? high : `above ${largest}`})`;
  }

  /* Surfaces by GPU and by recording; see analysis/render/calculator_data.py. */
  function read(data) {
    rules = data.rules;
    const kernels = data.surfaces.filter((row) => row.gpu && !row.place);
    const gpus = kernels.map((kernel) => {
      const runs = data.surfaces.filter((row) => row.place && row.gpu === kernel.gpu && row.variant === kernel.variant);
      const places = Object.fromEntries(runs.map((row) => [row.place, row]));
      const batch = data.batches.find((one) => one.gpu === kernel.gpu && one.variant === kernel.variant);
      return { gpu: kernel.gpu, variant: kernel.variant, kernel, places, batch };
    });
    const usable = (surface, shape) => surface && (isSquare(shape) || hasShapes(surface));
    return {
      onGpu: (gpu, shape, place) => gpus.filter((one) => one.gpu === gpu && usable(one.places[place], shape)),
      onCpu: (recording, baseline, shape) =>
        data.surfaces.find((row) => row.recording === recording && row.baseline === baseline && usable(row, shape)),
      nearest: (surface, shape) => {
        const far = distances(surface, shape);
        return surface.fastest[far.indexOf(Math.min(...far))];
      },
    };
  }

  return { read, onGpu, onCpu, timeOf, copies, slower, breakEven, longestEdges, isFar };
})();
