// What the pages of `ocellus watch` and `ocellus serve` share: colours, elements, numbers, memory, answers in JSON.
// Everything from outside is inserted as text.
'use strict';

// A link may bring the token to a browser that has it already.
function hide_token() {
  if (location.hash.startsWith('#token=')) history.replaceState(null, '', location.pathname + location.search);
}
addEventListener('hashchange', hide_token);
hide_token();
// ---- Colours: at once, so that nothing is painted in the wrong ones
const dark_scheme = matchMedia('(prefers-color-scheme: dark)');
const kThemes = ['auto', 'light', 'dark'];

// Choices of this browser. Without storage they end with the page.
function recall(name, otherwise) {
  try { return localStorage.getItem(name) ?? otherwise; } catch { return otherwise; }
}

function remember(name, text) {
  try { localStorage.setItem(name, text); } catch { /* as above */ }
}
let theme = recall('theme', 'auto');

function apply_theme() {
  if (!kThemes.includes(theme)) theme = 'auto';
  document.documentElement.dataset.theme = theme === 'auto' ? (dark_scheme.matches ? 'dark' : 'light') : theme;
  const button = document.getElementById('theme');
  if (button) button.textContent = {auto: '\u25D0 Auto', light: '\u25CB Light', dark: '\u25CF Dark'}[theme];
  if (button) button.setAttribute('aria-label', `Colours: ${theme}`);
}

function next_theme() {
  theme = kThemes[(kThemes.indexOf(theme) + 1) % kThemes.length];
  remember('theme', theme);
  apply_theme();
}
dark_scheme.addEventListener('change', apply_theme);
apply_theme();

// ---- Elements, numbers, times
const kDot = ' \u00b7 ';
const get = id => document.getElementById(id);

function set_text(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function make(tag, name, ...children) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  node.append(...children);
  return node;
}

// [number, unit], three digits or so.
function split_ms(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return ['\u2013', ''];
  if (ms >= 999.5) return [(ms / 1000).toFixed(ms < 9995 ? 2 : 1), 's'];
  return [ms < 99.95 ? ms.toFixed(1) : ms.toFixed(0), 'ms'];
}
const format_ms = ms => split_ms(ms).join('\u00a0').trim();
const format_count = count => (count ?? 0).toLocaleString('en-US');

function format_bytes(bytes) {
  if (!(bytes >= 1024)) return `${bytes ?? 0}\u00a0B`;
  if (bytes < 1048576) return `${(bytes / 1024).toFixed(bytes < 102400 ? 1 : 0)}\u00a0KiB`;
  if (bytes < 10 * 1073741824) return `${(bytes / 1048576).toFixed(1)}\u00a0MiB`;
  return `${(bytes / 1073741824).toFixed(1)}\u00a0GiB`;
}

const format_share = share => `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)}\u00a0%`;
const format_percent = change => `${+(change * 100).toFixed(1)}\u00a0%`;

function format_clock(at_ms) {
  const at = new Date(at_ms);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map(part => String(part).padStart(2, '0')).join(':');
}

function format_span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 90) return `${s} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return `${Math.floor(s / 3600)} h ${Math.round(s % 3600 / 60)} min`;
}

const days_ago = at_ms => Math.round((new Date().setHours(0, 0, 0, 0) - new Date(at_ms).setHours(0, 0, 0, 0)) / 864e5);

function format_moment(at_ms, clock = format_clock(at_ms)) {
  const form = {weekday: 'short', day: 'numeric'};
  return days_ago(at_ms) ? `${new Date(at_ms).toLocaleDateString('en-GB', form)} ${clock}` : clock;
}

function make_clock(at_ms) {
  const node = make('time', '', format_clock(at_ms));
  node.dateTime = new Date(at_ms).toISOString();
  return node;
}

// A picture; if the program's history no longer holds it, its place stays empty.
function make_thumbnail(address) {
  const image = make('img', 'thumb');
  image.alt = '';
  image.loading = 'lazy';
  image.decoding = 'async';
  image.addEventListener('error', () => image.classList.add('gone'), {once: true});
  if (address) image.src = address; else image.classList.add('gone');
  return image;
}

// Schedules `draw`, once however often it is requested before it runs.
function make_lazy(draw, every_ms) {
  let timer = 0;
  return () => { timer ||= setTimeout(() => { timer = 0; draw(); }, every_ms); };
}

// Returns the program's response. Throws an Error with the program's sentence and, if it gave an answer, its `status`.
async function reach(address, options) {
  let response;
  try {
    response = await fetch(address, {cache: 'no-store', ...options});
  } catch (failure) {
    if (failure.name === 'AbortError') throw failure;
    throw new Error('The program did not answer; it may have ended.');
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => null);
  const sentence = answer?.error?.message ?? `The program answered ${response.status} without saying why.`;
  throw Object.assign(new Error(sentence), {status: response.status});
}

function show_error(id, sentence) {
  set_text(get(id), sentence);
  get(id).hidden = !sentence;
}

function make_figures(list, entries) {
  for (const [name, label, title] of entries) {
    const value = make('dd');
    value.id = `${list.id}-${name}`;
    const cell = make('div', '', make('dt', '', label), value);
    cell.title = title;
    list.append(cell);
  }
}

// ---- The memory plan
const kLifetimes = [['weights', 'Weights'], ['session', 'Session'], ['scratch', 'Scratch'], ['staging', 'Staging']];

// `memory`: bytes by lifetime, their total, and the budget, 0 if there is none.
function draw_plan(memory) {
  const parts = kLifetimes.map(([name, label]) => [name, label, memory[`${name}_bytes`]]);
  const room = Math.max(memory.budget_bytes, memory.total_bytes, 1);
  if (memory.budget_bytes) parts.push(['spare', 'Spare', Math.max(0, memory.budget_bytes - memory.total_bytes)]);
  const bar = get('memory-bar'), list = get('memory-list');
  while (bar.children.length > parts.length) { bar.lastChild.remove(); list.lastChild.remove(); }
  parts.forEach(([name, label, bytes], place) => {
    if (place === bar.children.length) {
      bar.append(make('i'));
      list.append(make('li', '', make('span', '', make('i'), make('span')), make('span'), make('span')));
    }
    bar.children[place].className = `tint-${name}`;
    bar.children[place].style.width = `${100 * bytes / room}%`;
    const [head, amount, share] = list.children[place].children;
    head.firstChild.className = `tint-${name}`;
    set_text(head.lastChild, label);
    set_text(amount, format_bytes(bytes));
    set_text(share, format_share(bytes / room));
  });
  bar.setAttribute('aria-label', parts.map(([, label, bytes]) => `${label} ${format_bytes(bytes)}`).join(', '));
  const of_budget = memory.budget_bytes ? ` of ${format_bytes(memory.budget_bytes)}` : ', no budget';
  set_text(get('memory-total'), format_bytes(memory.total_bytes) + of_budget);
}

// ---- Answers in JSON: keys and values, arrays of objects as rows
function make_value(value, depth = 0) {
  if (typeof value === 'string') return value;
  const listed = Array.isArray(value), rows = Object.entries(value ?? {}).slice(0, 50);
  const is_row = ([, inner]) => inner && typeof inner === 'object' && !Array.isArray(inner);
  if (!rows.length || depth > 3 || (listed && !rows.every(is_row))) return JSON.stringify(value);
  const row = (...cells) => make('tr', '', ...cells), head = key => make('th', '', key);
  const cell = inner => make('td', '', inner === undefined ? '' : make_value(inner, depth + 1));
  if (!listed) return make('table', '', ...rows.map(([key, inner]) => row(head(key), cell(inner))));
  const keys = [...new Set(rows.flatMap(([, inner]) => Object.keys(inner)))].slice(0, 12);
  return make('table', 'listed', row(...keys.map(head)), ...rows.map(([, inner]) => row(...keys.map(key => cell(inner[key])))));
}
