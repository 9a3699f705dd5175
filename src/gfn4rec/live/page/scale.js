// Scales of charts: round ticks, domains, and runs of neighbouring points.

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** Return a step of 1, 2 or 5 times a power of ten that cuts `extent` into at most about `count` parts. */
function roundStep(extent, count, least) {
  const raw = extent / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const factor = [1, 2, 5, 10].find((each) => each * power >= raw * (1 - 1e-9)) ?? 10;
  return Math.max(factor * power, least);
}

/** Widen a range without extent, so that its value is in the middle, or at the top if the range begins at zero. */
function widened(low, high, fromZero) {
  if (high > low) {
    return [low, high];
  }
  const margin = Math.abs(low) / 10 || 1;
  return fromZero ? [low, high + margin] : [low - margin, high + margin];
}

/**
 * Return an axis for values from `low` to `high`: round ends, round ticks, and the digits that ticks need.
 * `least` is the smallest step: 1 for counts.
 */
export function valueAxis(low, high, { fromZero = false, count = 4, least = 0 } = {}) {
  const [bottom, top] = widened(fromZero ? Math.min(0, low) : low, high, fromZero);
  const step = roundStep(top - bottom, count, least);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const first = Math.floor(bottom / step + 1e-9);
  const last = Math.ceil(top / step - 1e-9);
  const ticks = Array.from({ length: last - first + 1 }, (_, n) => Number(((first + n) * step).toFixed(digits)));
  return { low: ticks[0], high: ticks.at(-1), ticks, digits };
}

/** Return round local times between two times, at most about `count`, and the unit that their labels need. */
export function timeAxis(start, end, count) {
  const step = STEPS.find((each) => each >= (end - start) / count) ?? 86400 * Math.ceil((end - start) / 86400 / count);
  const offset = -60 * new Date(start * 1000).getTimezoneOffset();
  const first = Math.ceil((start + offset) / step) * step - offset;
  const ticks = [];
  for (let time = first; time <= end; time += step) {
    ticks.push(time);
  }
  const isMidnight = (time) => (time + offset) % 86400 === 0;
  const unit = step < 60 ? "second" : "minute";
  return { ticks, unit: (time) => (isMidnight(time) ? "day" : unit) };
}

/** Return the function that maps low..high onto from..to. */
export function linear(low, high, from, to) {
  return (value) => from + ((value - low) / (high - low)) * (to - from);
}

/** Cut points, sorted by time, where more than `gap` seconds lie between neighbours. */
export function runs(points, gap) {
  const found = [];
  for (const point of points) {
    const last = found.at(-1);
    if (last && point.time - last.at(-1).time <= gap) {
      last.push(point);
    } else {
      found.push([point]);
    }
  }
  return found;
}

/** Return the index of the time that is nearest to the given one. */
export function nearest(times, time) {
  return times.reduce((best, each, n) => (Math.abs(each - time) < Math.abs(times[best] - time) ? n : best), 0);
}

/** Return the 95 % interval of a bucket's mean, or null while one slate says nothing about the spread. */
export function meanInterval({ mean, deviation, slates }) {
  if (!(slates >= 2) || !Number.isFinite(mean) || !Number.isFinite(deviation)) {
    return null;
  }
  const margin = (1.96 * deviation) / Math.sqrt(slates);
  return { low: mean - margin, high: mean + margin };
}
