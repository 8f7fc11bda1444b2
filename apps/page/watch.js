// The page of `ocellus watch`: live picture, captions, latency and memory. One stream of events feeds it;
// pictures are fetched one at a time. Everything kept here is bounded, so that a tab may stay open for days. Uses what
// page.js has.
'use strict';

const kCaptionHold_ms = 1200;  // a finished caption stays at least this long, or fast models could not be read
const kGroupsKept = 200;       // rows of history, one for each run of equal captions
const kAnswersKept = 50;
const kNotesKept = 50;
const kSparkCaptions = 60;
const kListEvery_ms = 250;     // minimum time between redraws of lists
const kSpokenEvery_ms = 10000; // minimum time between captions read out by screen readers
const kSilence_ms = 6000;      // the program sends an event every second: longer means that the connection is dead
const kSettle_ms = 400;        // sliders act once they rest

// Preset prompts for the bundled model, which knows boards with shapes, and for any other.
const kBoards = {
  thing: 'red circle',
  prompts: ['Describe this image.', 'What does the sign say?', 'Which shape is red?', 'How many circles are there?'],
  questions: ['What changed?', 'When did the red circle appear?', 'How many images show a ring?'],
};
const kAnything = {
  thing: 'person',
  prompts: ['Describe this image.', 'What is the person doing?', 'How many people are there?',
            'Read the text in this image.', 'Is anything unusual here?'],
  questions: ['What changed?', 'When did a person appear?', 'Which images show a person?'],
};
const list_day_questions = thing => [`When did a ${thing} appear?`, `How many times did a ${thing} appear today?`,
                                     'What changed in the last hour?', `Show me a ${thing}`];
const kDayPage = 200;     // frames of the timeline fetched at once
const kDayFrames = 400;   // and shown
const kPromptsKept = 12;  // limit of the viewer's own prompts
const kPlaces = [['below', 'Below'], ['beside', 'Beside'], ['over', 'Over'], ['off', 'Off']];
const kStages = [['preprocess_ms', 'preprocess', 'other'], ['encode_ms', 'encode', 'scratch'],
                 ['prefill_ms', 'prefill', 'staging'], ['decode_ms', 'decode', 'session']];
const kLatencies = [['last', 'last', 'Of the newest caption: from preprocessing to the last word'],
                    ['mean', 'mean', 'Of the captions so far'],
                    ['p95', 'p95', '95 of 100 captions took at most this long'],
                    ['age_last', 'age', 'From capture to the end of the newest caption']];
const kCounters = [
  ['captured', 'captured', 'Frames that the source delivered'],
  ['answered', 'answered', 'Frames with a caption'],
  ['unchanged', 'unchanged', 'Left out: below the change threshold'],
  ['skipped', 'skipped', 'Left out: the interval was not over, or paused'],
  ['dropped', 'dropped', 'Replaced by a newer frame before their turn'],
  ['broken', 'broken', 'Could not be decoded', 'fault'],
  ['failed', 'failed', 'The model gave no caption', 'fault'],
  ['deadline_missed', 'late', 'Cut off at the deadline', 'fault'],
  ['stalls', 'stalls', 'Times that the source was silent', 'fault'],
  ['losses', 'losses', 'Times that the source was gone', 'fault'],
  ['size_changes', 'resized', 'Times that the picture changed its size'],
];

// ---- The connection to the program
// Returns the JSON of the program's answer.
async function ask_program(address, body) {
  const options = {signal: AbortSignal.timeout(15000)};
  if (body) {
    const headers = {'Content-Type': 'application/json'};
    Object.assign(options, {method: 'POST', headers, body: JSON.stringify(body)});
  }
  try {
    return await (await reach(address, options)).json();
  } catch (failure) {
    if (failure.status === 401) throw new Error('The token is missing or wrong: load this page again to give it.');
    throw failure;
  }
}

let state = null;        // the newest State
let reachable = null;    // null until the first answer or failure
let unreachable_since = 0;
let events = null;
let last_heard = performance.now();

function connect() {
  events?.close();
  events = new EventSource('/api/events');
  const on = (name, act) => events.addEventListener(name, event => {
    last_heard = performance.now();
    set_reachable(true);
    act(JSON.parse(event.data));
  });
  on('state', take_state);
  on('frame', take_frame);
  on('caption_begin', begin_caption);
  on('caption_text', extend_caption);
  on('caption_end', end_caption);
  on('question_begin', question => begin_question(question));
  on('question_text', extend_answer);
  on('question_end', end_question);
  on('day_frame', take_day_frame);
  on('note', add_note);
  events.addEventListener('error', () => set_reachable(false));
  events.addEventListener('open', () => {
    last_heard = performance.now();
    set_reachable(true);
    load_lists();
  });
}

// A browser has six connections for all tabs of one program: hidden tabs close theirs, and fetch what they missed when
// they are shown again.
function follow_visibility() {
  last_heard = performance.now();
  if (document.hidden) {
    events?.close();
  } else {
    connect();
    if (picture.newest && !picture.loading) take_frame(picture.newest);
  }
}

// EventSource retries by itself unless it was refused; a connection that is silent without closing is closed, too.
function watch_line() {
  if (document.hidden) return;
  const silent = performance.now() - last_heard > kSilence_ms;
  if (events.readyState === EventSource.CLOSED || (silent && events.readyState === EventSource.OPEN)) {
    if (silent) set_reachable(false);
    last_heard = performance.now();
    connect();
  }
}

function set_reachable(now) {
  if (reachable === now) return;
  if (!now) unreachable_since = Date.now();
  reachable = now;
  draw_standing();
}

async function load_lists() {
  day.known = false;
  try {
    const [history, answers] = await Promise.all([ask_program('/api/history?count=100'), ask_program('/api/answers')]);
    take_history(history.records);
    history_known = true;
    show_newest(history.records[0]);
    if (older_possible === null) set_older(history.records.length === 100);
    for (const answer of answers.answers.reverse()) end_question(answer);
  } catch (failure) {
    add_note({level: 'warning', text: `What came before cannot be shown: ${failure.message}`, at_ms: Date.now()});
  }
}

// ---- Status
function take_state(next) {
  if (state && state.started_ms !== next.started_ms) forget_lists();
  state = next;
  draw_camera();
  draw_facts();
  draw_presets();
  draw_waiting();
  draw_figures();
  draw_memory();
  draw_controls();
  draw_day_facts();
}

// [tone, word of the pill, words of the badge on the picture, sentence of the banner]
function find_standing() {
  const source = state?.source;
  if (reachable === false) {
    return ['bad', 'No connection', `Last picture, ${format_clock(unreachable_since)}`,
            'The program cannot be reached. Trying again every second or two.'];
  }
  if (!state) return ['idle', 'Connecting', '', ''];
  if (source.posted && source.state === 'stalled' && !is_sending()) {
    return ['idle', 'No camera', 'No camera is sending', ''];
  }
  const what = source.state === 'lost' ? 'gone; trying again' : 'silent; waiting for it';
  const trouble = source.trouble || `The camera is ${what}.`;
  if (source.state === 'lost') return ['bad', 'Camera lost', 'No picture', trouble];
  if (source.state === 'stalled') return ['warn', 'Stalled', 'No new picture', trouble];
  if (state.settings_pending) {
    const {frames, kv_bits} = state.settings;
    const bits = kv_bits === 16 ? 'f16' : `${kv_bits} bits`;
    return ['warn', 'Rebuilding', `Creating the engine again: ${frames} frames, ${bits}`, ''];
  }
  if (source.state === 'ended') return ['idle', 'Ended', 'The source has ended', ''];
  if (state.settings.paused) return ['idle', 'Paused', 'Captions paused', ''];
  return state.frames.captured ? ['good', 'Live', '', ''] : ['idle', 'Starting', '', ''];
}

function draw_standing() {
  const [tone, word, badge, sentence] = find_standing();
  const pill = get('pill');
  set_text(pill, word);
  pill.dataset.tone = tone;
  document.title = word === 'Live' ? 'Ocellus' : `${word} \u2013 Ocellus`;
  set_text(get('badge'), badge);
  get('badge').hidden = !badge || !picture.shown;
  const banners = get('banners');
  if (banners.textContent !== sentence) {
    banners.replaceChildren();
    if (sentence) banners.append(make('p', 'banner', sentence));
  }
  if (banners.firstChild) banners.firstChild.dataset.tone = tone;
  const gone = reachable === false || state?.source.state === 'lost';
  get('stage').dataset.state = !picture.shown ? 'empty' : gone ? 'lost' : state?.source.state ?? 'running';
  const asks = state?.source.posted && !is_sending() ? 'This watch describes what your own camera sees.' : '';
  set_text(get('nothing-text'), asks || badge || (state ? 'Waiting for the first frame' : 'Connecting'));
}

function draw_facts() {
  const {source, model, settings} = state;
  const rate = source.fps ? `${source.fps.toFixed(1)} fps` : '';
  set_text(get('source'), [source.name, source.format, rate].filter(Boolean).join(kDot));
  get('source').title = get('source').textContent;
  set_text(get('model'), [model.name, model.format, model.device].join(kDot));
  set_text(get('uptime'), `up ${format_span(state.uptime_s)}`);
  set_text(get('version'), `ocellus ${state.version}`);
  set_text(get('pause'), settings.paused ? 'Resume' : 'Pause');
  get('pause').classList.toggle('on', settings.paused);
  if (source.width && source.height) get('stage').style.aspectRatio = `${source.width} / ${source.height}`;
}

function draw_figures() {
  for (const [name] of kLatencies) {
    const [number, unit] = split_ms(state.latency_ms[name]);
    const value = get(`latency-${name}`);
    if (value.textContent !== number + unit) value.replaceChildren(number, make('small', '', unit));
  }
  for (const [name, , , kind] of kCounters) {
    const value = get(`counts-${name}`);
    const count = state.frames[name] ?? 0;
    set_text(value, format_count(count));
    value.parentNode.className = count === 0 ? 'zero' : kind ?? '';
  }
  const fps = get('counts-fps');
  set_text(fps, (state.source.fps ?? 0).toFixed(1));
}

function draw_memory() {
  const {memory, settings} = state;
  draw_plan(memory);
  const lenses = get('lenses'), places = state.day ? 0 : Math.min(memory.images_most, 32);
  while (lenses.children.length > places) lenses.lastChild.remove();
  while (lenses.children.length < places) lenses.append(make('i'));
  [...lenses.children].forEach((lens, place) => { lens.className = place < memory.images_held ? 'held' : ''; });
  set_text(get('images-held'), state.day ? `${format_count(state.day.frames)} in the library` : `${memory.images_held} of ${memory.images_most}`);
  const share = memory.kv_bytes_full ? memory.kv_bytes / memory.kv_bytes_full : 0;
  get('kv-meter').style.width = `${Math.min(100, 100 * share)}%`;
  set_text(get('kv-bytes'), format_bytes(memory.kv_bytes) + (share ? `, ${format_share(share)}` : ''));
  const times = share ? `, ${(1 / share).toFixed(1)}\u00a0\u00d7` : '';
  set_text(get('kv-bytes-full'), format_bytes(memory.kv_bytes_full) + times);
  set_text(get('kv-bits-used'), `${+memory.kv_bits.toFixed(2)} (images ${settings.kv_bits})`);
  set_text(get('session-used'), `${format_bytes(memory.session_used_bytes)} of ${format_bytes(memory.session_bytes)}`);
  set_text(get('resident'), format_bytes(memory.rss_bytes));
}

// ---- The live picture: fetched only when the last one has arrived, drawn whole
const picture = {newest: null, loading: false, shown: 0, failures: 0};

function take_frame(frame) {
  picture.newest = frame;
  if (!picture.loading && !document.hidden) load_picture();
}

async function load_picture() {
  picture.loading = true;
  while (picture.newest && !document.hidden) {
    const frame = picture.newest;
    picture.newest = null;
    try {
      const response = await fetch(`/frame.jpg?sequence=${frame.sequence}`, {signal: AbortSignal.timeout(8000)});
      if (!response.ok) throw new Error(`${response.status}`);
      const bitmap = await createImageBitmap(await response.blob());
      draw_picture(bitmap, frame);
      bitmap.close();
      picture.failures = 0;
    } catch {
      if (++picture.failures === 3) {
        const text = 'The live picture cannot be fetched; trying again with each frame.';
        add_note({level: 'warning', text, at_ms: Date.now()});
      }
      await new Promise(resolve => setTimeout(resolve, 250));
    }
  }
  picture.loading = false;
}

function draw_picture(bitmap, frame) {
  const canvas = get('picture');
  if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
    canvas.width = bitmap.width;
    canvas.height = bitmap.height;
  }
  canvas.getContext('2d', {alpha: false}).drawImage(bitmap, 0, 0);
  canvas.dataset.sequence = frame.sequence;
  const size = `${frame.width} \u00d7 ${frame.height}`;
  set_text(get('frame-facts'), [`Frame ${format_count(frame.sequence)}`, size, format_clock(frame.at_ms)].join(kDot));
  if (picture.shown++ === 0) draw_standing();
}

// ---- The caption: below the picture, beside it, over it or nowhere
// It streams word by word. What the caption before said stays, dimmed, while the new one repeats it.
const caption = {coming: null, shown: null, before: '', hold_until: 0, timer: 0};
const spoken = {text: '', at: -kSpokenEvery_ms};

function begin_caption({id, at_ms}) {
  caption.coming = {id, at_ms, text: '', record: null};
}

function extend_caption({id, text}) {
  if (caption.coming?.id !== id) return;
  caption.coming.text += text;
  show_caption();
}

function end_caption(record) {
  if (caption.coming?.id !== record.id) begin_caption(record);
  caption.coming.text = record.text;
  caption.coming.record = record;
  show_caption();
  take_record(record);
  add_spark(record);
  say_caption(record);
}

function show_caption() {
  const coming = caption.coming;
  if (!coming || !(coming.text || coming.record?.error)) return;
  const wait_ms = caption.hold_until - performance.now();
  if (coming !== caption.shown && wait_ms > 0) {
    caption.timer ||= setTimeout(() => { caption.timer = 0; show_caption(); }, wait_ms);
    return;
  }
  if (coming !== caption.shown) caption.before = caption.shown?.text ?? '';
  caption.shown = coming;
  if (coming.record) caption.hold_until = performance.now() + kCaptionHold_ms;
  draw_caption(coming);
}

function draw_caption({text, record, at_ms}) {
  const failed = Boolean(record?.error);
  const repeats = !record && caption.before.startsWith(text);
  get('caption-box').classList.toggle('streaming', !record);
  set_text(get('caption-empty'), '');
  get('caption').classList.toggle('failed', failed);
  if (record) caption.answer = record.answer;  // a table stays until the next answer is complete
  draw_words(get('caption-text'), failed && !text ? record.error : text, caption.answer);
  set_text(get('caption-stale'), repeats && !caption.answer ? caption.before.slice(text.length) : '');
  // The newest words while they come, then the beginning, for a reader who had no time yet. What comes again stays where
  // its reader has scrolled.
  if (!record && !repeats) get('caption').scrollTop = get('caption').scrollHeight;
  if (record && text !== caption.before) get('caption').scrollTop = 0;
  const parts = [format_clock(at_ms)];
  if (record) parts.push(format_ms(record.total_ms), `${record.tokens} tokens`, `age ${format_ms(record.age_ms)}`);
  if (record && record.stop !== 'end') parts.push(name_stop(record.stop));
  set_text(get('caption-about'), parts.join(kDot));
  if (record) draw_places(record);
}

// An answer stands in place of its text.
function draw_words(node, text, answer, words = []) {
  if (!answer || typeof answer !== 'object') return mark_words(node, text, words);
  node.replaceChildren(make_value(answer));
  for (const leaf of node.querySelectorAll('td, th')) if (!leaf.children.length) mark_words(leaf, leaf.textContent, words);
}

// ---- Boxes and points of the caption, on the picture. They stay until the next caption is complete.
const kPlaceColours = 8;
const kPlacesDrawn = 100;
const kPlaceLetters_px = 14;
let placed = {};  // the record whose places are drawn

function make_shape(tag, name, attributes, text = '') {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  node.setAttribute('class', name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.textContent = text;
  return node;
}

// `px`: pixels of the picture in one of the screen. A line without length is a disc as wide as the line.
function make_place({label, box, point}, number, px) {
  const [left, top, right, bottom] = box ?? [...point, ...point];
  const shape = point ? `M${left} ${top}h0` : `M${left} ${top}H${right}V${bottom}H${left}z`;
  const group = make_shape('g', `place-${number % kPlaceColours}`, {});
  if (point) group.append(make_shape('path', 'point rim', {d: shape}));
  group.append(make_shape('path', point ? 'point' : 'box', {d: shape}));
  if (!label) return group;
  const size = kPlaceLetters_px * px, beside = point ? size : 0;
  const y = Math.max(top - 5 * px, size + 2 * px);
  group.append(make_shape('text', '', {x: left + beside, y, 'font-size': size}, label));
  return group;
}

function draw_places(record) {
  placed = record;
  const svg = get('places'), list = (record.places ?? []).slice(0, kPlacesDrawn);
  svg.toggleAttribute('hidden', !list.length);
  if (!list.length) return svg.replaceChildren();
  const {width, height} = record, stage = get('stage');
  const px = Math.max(width / stage.clientWidth, height / stage.clientHeight);
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('aria-label', `Marked: ${list.map(({label}) => label || 'a place').join(', ')}`);
  svg.replaceChildren(...list.map((place, number) => make_place(place, number, px)));
}

const kStops = new Map([['length', 'cut at its length'], ['deadline', 'cut at the deadline']]);
const name_stop = stop => kStops.get(stop) ?? stop;

function place_caption(place) {
  get('viewer').dataset.caption = place;
  get('caption-box').hidden = place === 'off';
}

function make_places() {
  const known = kPlaces.map(([place]) => place), kept = recall('caption', 'below');
  const chosen = known.includes(kept) ? kept : 'below';
  get('caption-place').replaceChildren(...kPlaces.map(([place, label]) => make_choice('caption_place', place, label, () => {
    place_caption(place);
    remember('caption', place);
  })));
  get('caption-place').querySelector(`[value="${chosen}"]`).checked = true;
  place_caption(chosen);
}

// Returns why there is no caption yet.
function find_waiting() {
  if (!state) return 'Connecting';
  if (!history_known && (state.frames.answered || state.frames.failed)) return 'Captions are being fetched.';
  if (state.settings.paused) return 'Paused: captions come when it goes on.';
  if (state.source.state === 'ended') return 'The source ended before its first caption.';
  if (!state.frames.captured) return 'Captions come with the first frames.';
  return 'The first caption is on its way.';
}

function draw_waiting() {
  if (!caption.shown) set_text(get('caption-empty'), groups.length ? '' : find_waiting());
  if (!groups.length) draw_history_soon();
}

// Shows the latest caption on a page that has just been opened.
function show_newest(record) {
  if (caption.coming || caption.shown || !record) return;
  caption.shown = {...record, record};
  draw_caption(caption.shown);
}

function toggle_fullscreen() {
  if (document.fullscreenElement) return document.exitFullscreen();
  return get('viewer').requestFullscreen({navigationUI: 'hide'}).catch(failure => {
    add_note({level: 'warning', text: `The browser gives no full screen: ${failure.message}.`, at_ms: Date.now()});
  });
}

function follow_fullscreen() {
  const button = get('fullscreen'), full = document.fullscreenElement !== null;
  button.setAttribute('aria-label', full ? 'Leave full screen' : 'Full screen');
  button.setAttribute('aria-pressed', String(full));
}

// Announces captions to screen readers: not every one, and none twice.
function say_caption(record) {
  const now = performance.now();
  if (!record.text || record.text === spoken.text || now - spoken.at < kSpokenEvery_ms) return;
  Object.assign(spoken, {text: record.text, at: now});
  get('spoken').textContent = record.text;
}

// ---- Sixty captions' times, by stage
const spark = [];

function add_spark(record) {
  spark.push(record);
  if (spark.length > kSparkCaptions) spark.shift();
  draw_spark_soon();
}

const draw_spark_soon = make_lazy(draw_spark, kListEvery_ms);

function draw_spark() {
  const svg = get('spark');
  const most = Math.max(...spark.map(record => record.total_ms), 1);
  const width = 300 / kSparkCaptions, height = 56;
  const paths = new Map(kStages.map(([, , tint]) => [tint, '']));
  paths.set('bad', '');
  spark.forEach((record, place) => {
    const x = 300 - (spark.length - place) * width;
    let y = height;
    const add = (tint, ms) => {
      const rise = height * 0.94 * ms / most;
      const bar = `M${x.toFixed(1)} ${y.toFixed(1)}h${width - 1}v${-rise.toFixed(1)}h${1 - width}z`;
      paths.set(tint, paths.get(tint) + bar);
      y -= rise;
    };
    if (record.stop === 'failed' || record.deadline_missed) return add('bad', record.total_ms);
    for (const [name, , tint] of kStages) add(tint, record[name] ?? 0);
  });
  while (svg.children.length < paths.size) svg.append(document.createElementNS('http://www.w3.org/2000/svg', 'path'));
  [...paths].forEach(([tint, path], place) => {
    svg.children[place].setAttribute('class', `tint-${tint}`);
    svg.children[place].setAttribute('d', path);
  });
  set_text(get('spark-hint'), `last ${spark.length}, up to ${format_ms(most)}`);
  svg.setAttribute('aria-label', `Time of the last ${spark.length} captions, up to ${format_ms(most)}`);
}

function draw_spark_legend() {
  for (const [name, label, tint] of [...kStages, ['', 'late or failed', 'bad']]) {
    get('spark-legend').append(make('span', '', make('i', `tint-${tint}`), label));
  }
}

// ---- History: rows of equal captions in a row, newest first
const groups = [];  // {record, first_id, count, row}, newest first
const drawn = new Set();
let older_possible = null;
let history_known = false;  // older captions have been fetched

function is_same(group, record) {
  const before = group?.record;
  return before && !before.error && !record.error && before.text === record.text && before.prompt === record.prompt;
}

function take_record(record) {
  const newest = groups[0];
  if (newest && record.id <= newest.record.id) return;
  if (is_same(newest, record)) {
    newest.record = record;
    newest.count += 1;
  } else {
    groups.unshift({record, first_id: record.id, thumbnail: record.thumbnail, count: 1, row: null});
    if (groups.length > kGroupsKept) {
      groups.pop();
      set_older(true);
    }
  }
  draw_history_soon();
}

function take_history(records) {
  for (const record of [...records].reverse()) {
    if (!groups.length || record.id > groups[0].record.id) add_spark(record);
    take_record(record);
  }
}

async function load_older() {
  const button = get('older');
  button.disabled = true;
  try {
    const oldest = groups.at(-1);
    const {records} = await ask_program(`/api/history?before=${oldest ? oldest.first_id : 0}&count=100`);
    for (const record of records) {
      const last = groups.at(-1);
      if (is_same(last, record)) {
        Object.assign(last, {first_id: record.id, count: last.count + 1});
      } else if (groups.length < 2 * kGroupsKept) {
        groups.push({record, first_id: record.id, thumbnail: record.thumbnail, count: 1, row: null});
      }
    }
    set_older(records.length === 100 && groups.length < 2 * kGroupsKept);
    draw_history();
  } catch (failure) {
    add_note({level: 'warning', text: `Older captions cannot be shown: ${failure.message}`, at_ms: Date.now()});
  }
  button.disabled = false;
}

function set_older(possible) {
  older_possible = possible;
  get('older').hidden = !possible;
}

function forget_lists() {
  for (const list of [groups, answers, spark]) list.length = 0;
  older_possible = null;
  Object.assign(caption, {coming: null, shown: null, before: '', answer: null});
  history_known = false;
  day = {...day, frames: [], follows: true};
  choose_day_frame(null);
  for (const part of ['caption-text', 'caption-stale', 'caption-about']) set_text(get(part), '');
  draw_places({});
  get('answers').replaceChildren();
  draw_spark();
  draw_history();
  load_lists();
}

const draw_history_soon = make_lazy(draw_history, kListEvery_ms);

function draw_history() {
  const list = get('history'), query = get('filter').value.trim().toLowerCase();
  const words = query.split(/\s+/).filter(Boolean);
  let captions = 0, found = 0;
  list.classList.toggle('filtered', words.length > 0);
  const kept = new Set(groups);
  for (const group of drawn) {
    if (kept.has(group)) continue;
    group.row.remove();
    drawn.delete(group);
  }
  let after = null;
  for (const group of groups) {
    captions += group.count;
    if (!group.row) make_row(group);
    if (!drawn.has(group)) {
      if (after) after.after(group.row); else list.prepend(group.row);
      drawn.add(group);
    }
    after = group.row;
    const text = (group.record.text || group.record.error).toLowerCase();
    group.row.hidden = !words.every(word => text.includes(word));
    if (!group.row.hidden) {
      found += group.count;
      draw_row(group, words);
    }
  }
  const all = captions ? format_count(captions) : '';
  set_text(get('history-count'), words.length ? `${format_count(found)} of ${all}` : all);
  get('history-empty').hidden = found > 0;
  set_text(get('history-empty'), captions ? 'No caption here has all of these words.' : find_waiting());
}

function make_row(group) {
  const text = make('span', 'text'), meta = make('span', 'meta');
  const more = make('div', 'more');
  const details = make('details', '', make('summary', '', make_thumbnail(group.thumbnail), text, meta), more);
  details.addEventListener('toggle', () => draw_more(group));
  group.row = make('li', '', details);
  Object.assign(group, {details, text, meta, more, seen: ''});
}

function draw_row(group, words) {
  const {record, count} = group;
  const seen = `${record.id} ${count} ${words.join(' ')}`;
  if (group.seen === seen) return;
  group.seen = seen;
  const failed = Boolean(record.error);
  group.text.classList.toggle('failed', failed);
  draw_words(group.text, record.text || record.error || '(no words)', record.answer, words);
  const parts = [make_clock(record.at_ms), make('span', '', format_ms(record.total_ms))];
  if (count > 1) parts.push(make('span', '', `${format_count(count)} times`));
  if (record.stop !== 'end') parts.push(make('span', 'flag', name_stop(record.stop)));
  else if (record.deadline_missed) parts.push(make('span', 'flag', 'late'));
  group.meta.replaceChildren(...parts);
  draw_more(group);
}

function name_clip(frames) {
  const first = frames[0].sequence, last = frames.at(-1);
  return `clip of frames ${format_count(first)} to ${format_count(last.sequence)}, ${last.seconds.toFixed(1)} s`;
}

// The stages of one caption's time; only while its row is open.
function draw_more({details, more, record, count, first_id}) {
  if (!details.open) return more.replaceChildren();
  const bar = make('div', 'split thin');
  const times = kStages.map(([name, label, tint]) => {
    const part = make('i', `tint-${tint}`);
    part.style.width = `${100 * (record[name] ?? 0) / Math.max(record.total_ms, 0.001)}%`;
    bar.append(part);
    return `${label} ${format_ms(record[name])}`;
  });
  const facts = [`first word after ${format_ms(record.ttft_ms)}`, `age ${format_ms(record.age_ms)}`,
                 `${record.tokens} tokens`, `${record.encoded_views} of ${record.encoded_views + record.known_views} views encoded`,
                 `changed ${format_percent(record.changed ?? 0)}`, `keys and values ${format_bytes(record.kv_bytes)}`,
                 `frame ${format_count(record.sequence)}, ${format_count(record.dropped)} dropped before it`,
                 count > 1 ? `captions ${first_id} to ${record.id}` : `caption ${record.id}`];
  if (record.clip) facts.push(name_clip(record.clip));
  more.replaceChildren(bar, make('p', '', times.join(kDot)), make('p', '', facts.join(kDot)),
                       make('p', '', `Prompt: ${record.prompt}`));
}

function mark_words(node, text, words) {
  if (!words.length) return void (node.children.length ? node.replaceChildren(text) : set_text(node, text));
  const escaped = words.map(word => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const pieces = text.split(new RegExp(`(${escaped.join('|')})`, 'gi'));
  node.replaceChildren(...pieces.map((piece, place) => place % 2 ? make('mark', '', piece) : piece));
}

function show_record(id) {
  const group = groups.find(one => one.first_id <= id && id <= one.record.id);
  if (!group) return;
  get('filter').value = '';
  draw_history();
  group.details.open = true;
  group.row.classList.remove('flash');
  group.row.scrollIntoView({block: 'nearest'});
  group.row.classList.add('flash');
  group.details.firstChild.focus({preventScroll: true});
}

// ---- Questions and answers, newest first
const answers = [];  // {id, row, text, seen, cost}

function find_answer(id) {
  return answers.find(answer => answer.id === id);
}

function begin_question({id, question, at_ms = Date.now()}) {
  let answer = find_answer(id);
  if (answer) return answer;
  answer = {id, text: make('p', 'answer waiting'), seen: make('div', 'seen'), cost: make('span', 'cost')};
  const head = make('p', 'asked', make('span', '', question), answer.cost, make_clock(at_ms));
  answer.row = make('li', '', head, answer.text, answer.seen);
  answer.seen.hidden = true;
  const place = answers.findIndex(other => other.id < id);
  if (place < 0) {
    answers.push(answer);
    get('answers').append(answer.row);
  } else {
    answers[place].row.before(answer.row);
    answers.splice(place, 0, answer);
  }
  while (answers.length > kAnswersKept) answers.pop().row.remove();
  if (answers[0] === answer) get('answers').scrollTop = 0;
  return answer;
}

function extend_answer({id, text}) {
  const answer = find_answer(id);
  if (!answer || answer.done) return;
  answer.text.append(text);
  answer.text.normalize();
}

function end_question(end) {
  const answer = begin_question(end);
  if (answer.done) return;
  answer.done = true;
  answer.text.className = end.error ? 'answer failed' : 'answer';
  set_text(answer.text, end.error || end.text);
  const frames = end.frames ?? [];
  answer.seen.replaceChildren(...frames.map(frame => make_seen(frame, end.at_ms)));
  answer.seen.hidden = !frames.length;
  if (!end.error) {
    set_text(answer.cost, format_ms(end.total_ms));
    answer.cost.title =
      `First word after ${format_ms(end.ttft_ms)}, ${end.tokens} tokens, over ${frames.length} images`;
  }
  const named = answer.seen.querySelector('.named');
  answer.named = new Set(frames.filter(frame => frame.named).map(frame => frame.at_ms));
  draw_day_soon();
  if (named) answer.seen.scrollLeft = named.offsetLeft - answer.seen.offsetLeft - named.offsetWidth;
  if (answer.asked_here) say_answer(answer);
}

function say_answer(answer) {
  get('spoken').textContent = `Answer: ${answer.text.textContent}`;
}

function make_seen(frame, asked_at_ms) {
  const ago = format_span((asked_at_ms - frame.at_ms) / 1000);
  const image = frame.label ? `image ${frame.label}` : 'found';  // in a library, by its caption
  const place = frame.seconds === undefined ? image : `second ${frame.seconds.toFixed(1)}`;
  const button = make('button', frame.named ? 'named' : '', make_thumbnail(frame.thumbnail),
                      make('b', '', `${frame.named ? '\u25C6 ' : ''}${place}`),
                      make('span', '', format_moment(frame.at_ms)));
  button.title = `${ago} before the question was answered`;
  button.type = 'button';
  const named = frame.named ? ', named in the answer' : '';
  const name = `${place}, ${format_moment(frame.at_ms)}, ${ago} before${named}: show its caption`;
  button.setAttribute('aria-label', name[0].toUpperCase() + name.slice(1));
  button.addEventListener('click', () => frame.id ? show_record(frame.id) : show_day_frame(frame.at_ms));
  return button;
}

async function ask_question(event) {
  event.preventDefault();
  const box = get('question'), text = box.value.trim();
  if (!text) return box.focus();
  get('send').disabled = true;
  try {
    const {id} = await ask_program('/api/question', {text});
    const answer = begin_question({id, question: text});
    if (answer.done) say_answer(answer); else answer.asked_here = true;
    box.value = '';
    show_error('ask-error', '');
  } catch (failure) {
    show_error('ask-error', failure.message);
  }
  get('send').disabled = false;
  box.focus();
}

// ---- Timeline: frames that a library keeps, newest first, or those before a time
let day = {frames: [], words: '', follows: true};  // and: known, older, asked, chosen

function draw_day_facts() {
  const facts = state.day;
  get('day').hidden = !facts;
  if (!facts) return;
  const span = [facts.oldest_ms, facts.newest_ms].map(at_ms => format_moment(at_ms)).join(' to ');
  const bytes = [facts.bytes, facts.quota_bytes].filter(Boolean).map(format_bytes).join(' of ');
  const about = [`${format_count(facts.frames)} frames`, span, bytes].join(kDot);
  set_text(get('day-facts'), facts.frames ? about : '');
  if (!day.known && day.follows) load_day();
  day.frames = day.frames.filter(({at_ms}) => facts.frames && at_ms >= facts.oldest_ms);
  draw_day_soon();
}

// `joins`: after what is shown.
async function load_day(before_ms = 0, joins = false) {
  const asked = day.asked = {};
  day.known = true;
  show_error('day-error', '');
  const query = `count=${kDayPage}&before=${before_ms}&words=${encodeURIComponent(day.words)}`;
  const page = (await ask_program(`/api/day?${query}`).catch(fail_day))?.frames;
  if (!page || asked !== day.asked) return;
  const known = new Map(day.frames.map(frame => [frame.at_ms, frame]));  // keep their rows
  const stay = day.frames.filter(frame => joins || (!before_ms && fits_words(frame) && frame.at_ms > page[0]?.at_ms));
  const all = [...stay, ...page.map(frame => known.get(frame.at_ms) ?? frame)];
  day.frames = all.slice(-kDayFrames);
  day.older = page.length === kDayPage;
  day.follows = joins ? day.follows && all.length <= kDayFrames : !before_ms;
  draw_day();
  if (!joins) get('day-strip').scrollLeft = 0;
}

const fail_day = failure => show_error('day-error', failure.message);

const fits_words = ({caption}) => day.words.split(/\s+/).every(word => caption.toLowerCase().includes(word));

function take_day_frame(frame) {
  if (!day.follows || !fits_words(frame)) return;
  day.older ||= day.frames.length === kDayFrames;
  day.frames = [frame, ...day.frames].slice(0, kDayFrames);
  draw_day_soon();
}

const draw_day_soon = make_lazy(draw_day, kListEvery_ms);

function draw_day() {
  const strip = get('day-strip'), list = get('day-list'), {frames} = day;
  const named = answers.find(answer => answer.named)?.named;
  const anchor = strip.scrollLeft > 40 && frames.find(({row}) => row?.offsetLeft >= strip.scrollLeft)?.row;
  const place = anchor?.offsetLeft - strip.scrollLeft;
  const rows = new Set(frames.map(frame => frame.row ??= make_day_row(frame)));
  for (const row of [...list.children]) if (!rows.has(row)) row.remove();
  let hour = '';
  frames.forEach(({row, at_ms, caption}, number) => {
    if (list.children[number] !== row) list.insertBefore(row, list.children[number] ?? null);
    const before = hour, mark = named?.has(at_ms) ? 'named' : '';
    hour = format_moment(at_ms, `${format_clock(at_ms).slice(0, 2)}:00`);
    row.dataset.hour = hour === before ? '' : hour;
    row.className = mark;
    row.querySelector('input').ariaLabel = [format_moment(at_ms), mark, caption].join(' ');
  });
  get('day-older').hidden = !day.older;
  get('day-empty').hidden = frames.length > 0;
  if (anchor) strip.scrollLeft = anchor.offsetLeft - place;
}

function make_day_row(frame) {
  const picture = make('span', '', make_thumbnail(frame.thumbnail), format_moment(frame.at_ms));
  const row = make('li', '', make_choice('day', frame.at_ms, picture, () => choose_day_frame(frame)));
  row.title = frame.caption;
  return row;
}

function choose_day_frame(frame) {
  day.chosen = frame;
  get('day-chosen').hidden = !frame;
  set_text(get('day-forget'), 'Forget');
  if (!frame) return draw_day();
  let words = frame.caption;
  try { words = make_value(JSON.parse(words)); } catch { /* no JSON */ }
  get('day-caption').replaceChildren(format_moment(frame.at_ms) + kDot, words);
  // questions name times of today and yesterday
  get('day-ask').hidden = get('day-like').hidden = days_ago(frame.at_ms) > 1;
}

async function show_day_frame(at_ms) {
  const find = () => day.frames.find(frame => frame.at_ms === at_ms)?.row;
  if (!find()) {
    get('day-words').value = day.words = '';
    await load_day(at_ms + 1);
  }
  const row = find();
  if (!row) return show_error('day-error', 'This frame is no longer kept.');
  row.scrollIntoView({block: 'nearest', inline: 'center'});
  row.firstChild.click();
  row.querySelector('input').focus({preventScroll: true});
}

function ask_about_day(words, end) {
  const {at_ms} = day.chosen;
  get('question').value = `${words} ${format_clock(at_ms)}${days_ago(at_ms) ? ' yesterday' : ''}${end}`;
  get('question').focus();
}

async function forget_day_frame({detail}) {
  const {at_ms, key} = day.chosen, button = get('day-forget');
  if (button.textContent === 'Forget') return set_text(button, 'Forget for good?');
  if (detail > 1) return;  // a double click
  if (!await ask_program('/api/forget', {from_ms: at_ms, to_ms: at_ms + 1}).catch(fail_day)) return;
  day.frames = day.frames.filter(frame => frame.key !== key);
  choose_day_frame(null);
  get('day-words').focus();
}

const find_day_soon = make_lazy(() => {
  day.words = get('day-words').value.trim().toLowerCase();
  load_day();
}, kSettle_ms);

// ---- Controls
const kNumbers = ['every_s', 'change', 'frames', 'keep', 'deadline_ms'];
const touched = new Set();  // changed by the viewer, not yet accepted by the program
let unsent = {};
let settle_timer = 0;
let sending = Promise.resolve();

function draw_controls() {
  const {settings, limits} = state;
  get('frames').max = limits.frames_most;
  if (get('bits').children.length !== limits.kv_bits.length) make_bits(limits.kv_bits);
  for (const name of kNumbers) {
    if (!touched.has(name)) get(name).value = settings[name];
  }
  if (!touched.has('kv_bits')) {
    for (const radio of get('bits').querySelectorAll('input')) radio.checked = Number(radio.value) === settings.kv_bits;
  }
  if (!touched.has('prompt')) get('prompt').value = settings.prompt;
  draw_outputs();
  draw_prompt_button();
  get('controls').classList.toggle('busy', state.settings_pending);
  set_text(get('controls-hint'), state.settings_pending ? 'creating the engine' : touched.size ? 'not applied yet' : '');
}

function draw_outputs() {
  set_text(get('change-out'), Number(get('change').value) ? `over ${format_percent(get('change').value)}` : 'any');
  const frames = Number(get('frames').value), keep = Number(get('keep').value);
  set_text(get('frames-out'), `${frames} ${frames === 1 ? 'frame' : 'frames'}`);
  set_text(get('keep-out'), keep < 1 ? `${format_percent(keep)} of slots` : 'all slots');
}

function make_bits(choices) {
  get('bits').replaceChildren(...choices.map(bits => {
    return make_choice('kv_bits', bits, bits === 16 ? 'f16' : String(bits), () => change_setting('kv_bits', bits));
  }));
}

function make_choice(name, value, label, act) {
  const radio = make('input');
  Object.assign(radio, {type: 'radio', name, value});
  radio.addEventListener('change', act);
  return make('label', '', radio, make('span', '', label));
}

function change_setting(name, value, wait_ms = kSettle_ms) {
  touched.add(name);
  unsent[name] = value;
  clearTimeout(settle_timer);
  settle_timer = setTimeout(() => { sending = sending.then(send_settings); }, wait_ms);
}

async function send_settings() {
  const changes = unsent;
  unsent = {};
  if (!Object.keys(changes).length) return;
  let next = null, sentence = '';
  try {
    next = await ask_program('/api/settings', changes);
  } catch (failure) {
    sentence = failure.message;
  }
  for (const name of Object.keys(changes)) {
    // Refused values return to those in force, except a prompt: its text stays for editing.
    if (!(name in unsent) && !(sentence && name === 'prompt')) touched.delete(name);
  }
  show_error('prompt' in changes ? 'prompt-error' : 'controls-error', sentence);
  if (next) take_state(next); else if (state) draw_controls();
}

function change_number(name) {
  const box = get(name), value = Number(box.value);
  if (box.value.trim() === '' || !box.checkValidity()) {
    show_error('controls-error', `${box.labels[0].textContent} is a number from ${box.min} to ${box.max}.`);
    touched.delete(name);
    return draw_controls();
  }
  change_setting(name, value);
}

function draw_prompt_button() {
  const text = get('prompt').value.trim();
  get('apply-prompt').disabled = !state || !text || text === state.settings.prompt;
  get('keep-prompt').disabled = !state || !text || own_prompts.includes(text) || find_presets().prompts.includes(text);
}

function edit_prompt() {
  if (get('prompt').value.trim() === state?.settings.prompt) touched.delete('prompt'); else touched.add('prompt');
  draw_prompt_button();
}

function apply_prompt(text) {
  const most = state?.limits.prompt_bytes ?? 2000, bytes = new TextEncoder().encode(text).length;
  if (!text) return;
  if (bytes > most) {
    const sentence = `The prompt has ${format_count(bytes)} bytes; at most ${format_count(most)} fit.`;
    return show_error('prompt-error', sentence);
  }
  get('prompt').value = text;
  change_setting('prompt', text, 0);
}

// ---- Prompts and questions to choose from; prompts of the viewer's own stay in the browser
const own_prompts = recall_prompts();
let presets_drawn = '';

function recall_prompts() {
  let kept = null;
  try { kept = JSON.parse(recall('prompts', '[]')); } catch { /* not ours */ }
  const prompts = (Array.isArray(kept) ? kept : []).filter(text => typeof text === 'string' && text.trim());
  return prompts.slice(0, kPromptsKept);
}

function find_presets() {
  const presets = /shapeboard/i.test(state?.model.name ?? '') ? kBoards : kAnything;
  return state?.day ? {...presets, questions: list_day_questions(presets.thing)} : presets;
}

function draw_presets() {
  const {prompts, questions} = find_presets(), drawn_now = JSON.stringify([prompts, questions, own_prompts]);
  if (drawn_now === presets_drawn) return;
  presets_drawn = drawn_now;
  const own = own_prompts.map(text => {
    const forget = make('button', 'forget', '\u00d7');
    Object.assign(forget, {type: 'button', title: 'Forget this prompt'});
    forget.setAttribute('aria-label', `Forget the prompt ${text}`);
    forget.addEventListener('click', () => forget_prompt(text));
    return make('li', 'own', make_preset(text, apply_prompt), forget);
  });
  get('prompt-presets').replaceChildren(...prompts.map(text => make('li', '', make_preset(text, apply_prompt))), ...own);
  const ask = text => { get('question').value = text; get('ask').requestSubmit(); };
  get('ask-presets').replaceChildren(...questions.map(text => make('li', '', make_preset(text, ask))));
}

function make_preset(text, act) {
  const button = make('button', '', text);
  Object.assign(button, {type: 'button', title: text});
  button.addEventListener('click', () => act(text));
  return button;
}

function keep_prompt() {
  own_prompts.push(get('prompt').value.trim());
  if (own_prompts.length > kPromptsKept) own_prompts.shift();
  remember_prompts();
}

function forget_prompt(text) {
  own_prompts.splice(own_prompts.indexOf(text), 1);
  remember_prompts();
  get('prompt').focus();
}

function remember_prompts() {
  remember('prompts', JSON.stringify(own_prompts));
  draw_presets();
  draw_prompt_button();
}

// ---- Notes
const notes = [];  // {level, text, count, row}, newest first

function add_note({level, text, at_ms}) {
  const list = get('notes'), newest = notes[0];
  if (newest && newest.text === text) {
    newest.count += 1;
    newest.row.replaceChildren(make_clock(at_ms), make('span', '', `${text} (${format_count(newest.count)} times)`));
  } else {
    const row = make('li', '', make_clock(at_ms), make('span', '', text));
    notes.unshift({level, text, count: 1, row});
    list.prepend(row);
    while (notes.length > kNotesKept) notes.pop().row.remove();
  }
  notes[0].row.lastChild.dataset.tone = {warning: 'warn', error: 'bad'}[level] ?? 'note';
  get('notes-empty').hidden = true;
}

// ---- Keys
function press_key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target.closest('input[type="text"], input[type="search"], input[type="number"], textarea');
  if (event.key === '/' && !typing) {
    event.preventDefault();
    get('question').focus();
    get('question').scrollIntoView({block: 'nearest'});
  }
  if (event.key === 'f' && !event.target.closest('input, textarea, select') && !get('fullscreen').hidden) toggle_fullscreen();
  if (event.key !== 'Escape') return;
  if (event.target.id === 'question') {
    if (!event.target.value) event.target.blur();
    event.target.value = '';
    show_error('ask-error', '');
  } else if (event.target.id === 'filter') {
    event.target.value = '';
    draw_history();
  } else if (event.target.id === 'prompt' && state) {
    touched.delete('prompt');
    draw_controls();
  }
}

function start() {
  apply_theme();
  make_figures(get('latency'), kLatencies);
  make_figures(get('counts'), [...kCounters, ['fps', 'fps', 'Frames a second from the source']]);
  draw_spark_legend();
  make_places();
  get('theme').addEventListener('click', next_theme);
  get('pause').addEventListener('click', () => state && change_setting('paused', !state.settings.paused, 0));
  get('fullscreen').hidden = !document.fullscreenEnabled;
  get('fullscreen').addEventListener('click', toggle_fullscreen);
  document.addEventListener('fullscreenchange', follow_fullscreen);
  get('keep-prompt').addEventListener('click', keep_prompt);
  get('ask').addEventListener('submit', ask_question);
  get('filter').addEventListener('input', draw_history);
  get('older').addEventListener('click', load_older);
  get('day-words').addEventListener('input', find_day_soon);
  get('day-newest').addEventListener('click', () => load_day());
  get('day-older').addEventListener('click', () => load_day(day.frames.at(-1)?.at_ms, true));
  get('day-ask').addEventListener('click', () => ask_about_day('What was there at', '?'));
  get('day-like').addEventListener('click', () => ask_about_day('Show me frames like', ''));
  get('day-forget').addEventListener('click', forget_day_frame);
  get('prompting').addEventListener('submit', event => {
    event.preventDefault();
    apply_prompt(get('prompt').value.trim());
  });
  get('prompt').addEventListener('input', edit_prompt);
  get('prompt').addEventListener('keydown', event => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      apply_prompt(get('prompt').value.trim());
    }
  });
  for (const name of kNumbers) {
    get(name).addEventListener('input', () => { touched.add(name); draw_outputs(); });
    get(name).addEventListener('change', () => change_number(name));
    get(name).addEventListener('blur', () => {  // typed and undone: not a change
      if (state && !(name in unsent) && Number(get(name).value) === state.settings[name]) touched.delete(name);
    });
  }
  new ResizeObserver(() => draw_places(placed)).observe(get('stage'));
  document.addEventListener('keydown', press_key);
  document.addEventListener('visibilitychange', follow_visibility);
  draw_standing();
  if (!document.hidden) connect();
  setInterval(watch_line, 2000);
}
document.addEventListener('DOMContentLoaded', start);
