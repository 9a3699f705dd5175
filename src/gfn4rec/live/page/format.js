// Numbers and times as texts. The page is in English, so its numbers are, too; a value that is absent is a dash.

const LOCALE = navigator.languages.find((language) => /^en\b/.test(language)) ?? "en";
const ABSENT = "–";
const DAY = 86400;

const numberFormats = new Map();

function number(value, options) {
  if (value === null || value === undefined || !Number.isFinite(value)) {
    return ABSENT;
  }
  const key = JSON.stringify(options);
  if (!numberFormats.has(key)) {
    numberFormats.set(key, new Intl.NumberFormat(LOCALE, options));
  }
  return numberFormats.get(key).format(value);
}

export const integer = (value) => number(value, { maximumFractionDigits: 0 });

export const decimal = (value, digits = 3) =>
  number(value, { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** Three significant digits: losses may be large or small. */
export const significant = (value) => number(value, { minimumSignificantDigits: 3, maximumSignificantDigits: 3 });

/** A probability: 34.1 %, 1.23 %, 0.0123 %. */
export function percent(value) {
  if (value > 0 && value < 1e-5) {
    return "< 0.001 %";
  }
  const text = number(100 * value, { maximumSignificantDigits: 3 });
  return text === ABSENT ? text : `${text} %`;
}

/** A rate: one digit after the point while it is small. */
export const rate = (value) => decimal(value, value < 100 ? 1 : 0);

export function milliseconds(value) {
  const text = rate(value);
  return text === ABSENT ? text : `${text} ms`;
}

export function range(low, high, digits = 3) {
  const isAbsent = [low, high].some((end) => end === null || end === undefined);
  return isAbsent ? ABSENT : `${decimal(low, digits)} – ${decimal(high, digits)}`;
}

const clocks = {
  second: { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
  minute: { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  day: { day: "numeric", month: "short" },
};
const timeFormats = Object.fromEntries(
  Object.entries(clocks).map(([unit, options]) => [unit, new Intl.DateTimeFormat(LOCALE, options)]),
);

/** A time of day (seconds since 1970), down to a second or a minute; or a day. */
export function clock(seconds, unit = "second") {
  return Number.isFinite(seconds) ? timeFormats[unit].format(seconds * 1000) : ABSENT;
}

/** A time of day, with its day if that is not the day of `now`. */
export function moment(seconds, now) {
  const isToday = clock(seconds, "day") === clock(now, "day") && now - seconds < DAY;
  return isToday ? clock(seconds) : `${clock(seconds, "day")}, ${clock(seconds, "minute")}`;
}

/** A time span in its largest fitting unit: 45 s, 12 min, 3 h, 2 days. */
export function span(seconds) {
  if (!Number.isFinite(seconds)) {
    return ABSENT;
  }
  const whole = Math.max(0, Math.round(seconds));
  const units = [[2 * DAY, DAY, "days"], [7200, 3600, "h"], [120, 60, "min"], [0, 1, "s"]];
  const [, length, name] = units.find(([least]) => whole >= least);
  return `${integer(Math.floor(whole / length))} ${name}`;
}

/** "1 slate", "2 slates". */
export function counted(value, one, many = `${one}s`) {
  return `${integer(value)} ${value === 1 ? one : many}`;
}
