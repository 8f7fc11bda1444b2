// The page of `ocellus serve`: talking with pictures by its own API. The conversation is kept here and sent with every
// question, as every client of that API does; a failed question comes back into its box. Uses what page.js has.
'use strict';

const kPollEvery_ms = 2000;
const kDescribe = 'Describe this image.';  // for pictures without a question
// Questions for the bundled model, which knows boards with shapes, and for any other.
const kBoardQuestions = [kDescribe, 'Which images show a red ring?', 'How many circles are there?', 'What does the sign say?'];
const kQuestions = [kDescribe, 'Read the text in this image.', 'How many people are there?', 'What changed between the images?'];
const kFigures = [['rate', 'tokens/s', 'Tokens a second after the first, as they arrived here'],
                  ['first', 'first token', 'From the question to the first token'],
                  ['prompt', 'prompt', 'Tokens of the conversation, pictures included'],
                  ['cached', 'of it known', 'Tokens of the conversation that were not read again']];

const messages = [];  // the conversation, as the program gets it
const waiting = [];   // pictures of the next question: {name, url}
let run = null;       // the answer that is coming
let key = '';         // with --api-keys: the viewer's, kept by this page alone

const headers = () => (key ? {Authorization: `Bearer ${key}`} : {});

// ---- The connection to the program
async function load_model() {
  const list = await (await reach('/v1/models', {headers: headers()})).json();
  const name = list.data[0].id;
  set_text(get('model'), name);
  const questions = /shapeboard/i.test(name) ? kBoardQuestions : kQuestions;
  get('presets').replaceChildren(...questions.map(text => {
    const button = make('button', '', text);
    button.type = 'button';
    button.addEventListener('click', () => { get('question').value = text; ask(); });
    return make('li', '', button);
  }));
}

function set_pill(tone, word) {
  get('pill').dataset.tone = tone;
  set_text(get('pill'), word);
}

// Nothing is asked while the viewer is to give a key.
async function poll() {
  if (document.hidden || !get('key-form').hidden) return;
  try {
    if (!get('model').textContent) await load_model();
    set_pill(...(run ? ['good', 'Answering'] : ['good', 'Ready']));
    draw_metrics(await (await reach('/metrics', {headers: headers()})).text());
  } catch (failure) {
    if (failure.status === 401) ask_for_key(failure.message);
    if (!failure.status) set_pill('bad', 'No connection');
    get('memory-box').hidden = true;
    get('memory-empty').hidden = false;
    set_text(get('memory-empty'), failure.message);
  }
}

function ask_for_key(sentence) {
  set_pill('warn', 'No key');
  get('key-form').hidden = false;
  if (key) show_error('key-error', sentence);
}

function take_key(event) {
  event.preventDefault();
  key = get('key').value.trim();
  show_error('key-error', '');
  get('key-form').hidden = true;
  poll();
}

// ---- Memory: the plan and its use, from the metrics
function draw_metrics(text) {
  const lines = text.split('\n').filter(line => line && !line.startsWith('#')).map(line => line.split(/ (?=\S+$)/));
  const metrics = new Map(lines.map(([name, value]) => [name, Number(value)]));
  const memory = {total_bytes: 0, budget_bytes: metrics.get('ocellus_budget_bytes') ?? 0};
  for (const [name] of kLifetimes) {
    memory[`${name}_bytes`] = metrics.get(`ocellus_plan_bytes{lifetime="${name}"}`) ?? 0;
    memory.total_bytes += memory[`${name}_bytes`];
  }
  draw_plan(memory);
  const share = metrics.get('ocellus_kv_cache_usage_perc') ?? 0;
  get('cache-meter').style.width = `${Math.min(100, 100 * share)}%`;
  set_text(get('cache-share'), format_share(share));
  set_text(get('load'), `${metrics.get('ocellus_num_requests_running') ?? 0}, ${metrics.get('ocellus_num_requests_waiting') ?? 0}`);
  set_text(get('resident'), format_bytes(metrics.get('process_resident_memory_bytes')));
  get('memory-box').hidden = false;
  get('memory-empty').hidden = true;
}

// ---- Pictures of the next question
function read_url(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener('load', () => resolve(reader.result));
    reader.addEventListener('error', () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}

async function add_files(files) {
  show_error('ask-error', '');
  for (const file of [...files]) {
    try {
      waiting.push({name: file.name, url: await read_url(file)});
    } catch {
      show_error('ask-error', `${file.name} cannot be read; a folder is no picture.`);
    }
  }
  draw_waiting();
  get('question').focus();
}

// Browsers do not show every kind of picture that the program reads: then its name stands there.
function make_picture({name, url}) {
  const image = make('img');
  image.alt = name;
  image.src = url;
  return image;
}

function draw_waiting() {
  get('waiting').replaceChildren(...waiting.map((picture, place) => {
    const button = make('button', '', '\u00d7');
    button.type = 'button';
    button.setAttribute('aria-label', `Remove ${picture.name}`);
    button.addEventListener('click', () => {
      waiting.splice(place, 1);
      draw_waiting();
      get('question').focus();
    });
    return make('li', '', make_picture(picture), button);
  }));
  draw_buttons();
}

function draw_buttons() {
  get('send').disabled = run !== null || (!get('question').value.trim() && !waiting.length);
  get('send').hidden = run !== null;
  get('stop').hidden = run === null;
  get('renew').hidden = !get('turns').children.length;
  get('nothing').hidden = get('turns').children.length > 0;
  for (const button of get('presets').querySelectorAll('button')) button.disabled = run !== null;
}

// ---- Questions and answers
// Returns the fields of the request that the viewer has set. Throws an Error with a sentence.
function read_fields() {
  const fields = {}, tokens = get('tokens');
  if (!tokens.validity.valid) throw new Error('The most tokens of an answer are a whole number from 1 to 1,000,000.');
  if (tokens.value) fields.max_tokens = Number(tokens.value);
  if (!get('form').value) return fields;
  try {
    const schema = JSON.parse(get('schema').value);
    fields.response_format = {type: 'json_schema', json_schema: {name: 'answer', schema}};
  } catch (failure) {
    throw new Error(`The schema is not JSON: ${failure.message}.`);
  }
  return fields;
}

function make_run(text, pictures) {
  const answer = make('div', 'answer running'), cost = make('p', 'cost'), thoughts = make('pre');
  const thinking = make('details', '', make('summary', '', 'Thoughts'), thoughts);
  thinking.hidden = true;
  const shown = make('div', 'shown', ...pictures.map(picture => make('span', '', make_picture(picture))));
  shown.hidden = !pictures.length;
  const row = make('li', '', shown, make('p', 'asked', text), thinking, answer, cost);
  const parts = pictures.map(({url}) => ({type: 'image_url', image_url: {url}}));
  const content = pictures.length ? [...parts, {type: 'text', text}] : text;
  return {text, pictures, content, row, answer, cost, thinking, thoughts, said: '', begun: performance.now(), first: 0,
          last: 0, usage: null, reason: '', abort: new AbortController()};
}

async function ask(event) {
  event?.preventDefault();
  const text = get('question').value.trim() || (waiting.length ? kDescribe : '');
  if (run || !text) return;
  let fields;
  try {
    fields = read_fields();
  } catch (failure) {
    return show_error('ask-error', failure.message);
  }
  show_error('ask-error', '');
  run = make_run(text, waiting.splice(0));
  get('turns').append(run.row);
  get('question').value = '';
  draw_waiting();
  set_pill('good', 'Answering');
  follow(true);
  const body = {...fields, stream: true, stream_options: {include_usage: true},
                messages: [...messages, {role: 'user', content: run.content}]};
  try {
    await stream_answer(body);
    finish(Boolean(fields.response_format));
  } catch (failure) {
    if (run.row.isConnected && run.said && failure.name === 'AbortError') finish(false);
    else give_back(failure);
  }
  run = null;
  draw_buttons();
  get('question').focus();
  poll();
}

async function stream_answer(body) {
  const response = await reach('/v1/chat/completions', {
    method: 'POST', signal: run.abort.signal, body: JSON.stringify(body),
    headers: {...headers(), 'Content-Type': 'application/json'}});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = '', part; !(part = await reader.read()).done;) {
    const events = (rest + part.value).split('\n\n');
    rest = events.pop();
    for (const event of events) if (event.startsWith('data: {')) take_event(JSON.parse(event.slice(6)));
    follow(false);
  }
  if (!run.reason) throw new Error('The answer was cut off; the program may have ended.');
}

function take_event({choices, usage, error}) {
  if (error) throw new Error(error.message);
  if (usage) run.usage = usage;
  const {delta, finish_reason: reason} = choices?.[0] ?? {};
  if (reason) run.reason = reason;
  if (!delta?.content && !delta?.reasoning_content) return;
  run.last = performance.now();
  run.first ||= run.last;
  run.said += delta.content ?? '';
  run.answer.append(delta.content ?? '');
  run.thoughts.append(delta.reasoning_content ?? '');
  run.thinking.hidden = !run.thoughts.textContent;
}

// Shows the end of the conversation, unless its reader has scrolled away from it.
function follow(always) {
  const box = get('turns-box');
  const near = box.scrollHeight - box.scrollTop - box.clientHeight < 120;
  if (near || always) box.scrollTop = box.scrollHeight;
  if (always) get('ask').scrollIntoView({block: 'nearest'});
}

// The answer is complete, or was stopped: it becomes a part of the conversation.
function finish(is_table) {
  messages.push({role: 'user', content: run.content}, {role: 'assistant', content: run.said});
  run.answer.classList.remove('running');
  run.answer.normalize();
  if (is_table) draw_table();
  const tokens = run.usage?.completion_tokens, seconds = (run.last - run.first) / 1000;
  const rate = tokens > 1 && seconds > 0 ? (tokens - 1) / seconds : NaN;
  const cut = {length: 'cut at its length', '': 'stopped'}[run.reason];
  const took = `${format_ms(performance.now() - run.begun)} in all`;
  set_text(run.cost, [tokens && `${format_count(tokens)} tokens`, took, cut].filter(Boolean).join(kDot));
  const shown = {rate: Number.isFinite(rate) ? [rate.toFixed(rate < 99.5 ? 1 : 0), ''] : ['\u2013', ''],
                 first: split_ms(run.first ? run.first - run.begun : NaN),
                 prompt: [run.usage ? format_count(run.usage.prompt_tokens) : '\u2013', ''],
                 cached: [run.usage ? format_count(run.usage.prompt_tokens_details?.cached_tokens) : '\u2013', '']};
  for (const [name, [number, unit]] of Object.entries(shown)) get(`speed-${name}`).replaceChildren(number, make('small', '', unit));
  set_text(get('spoken'), run.answer.textContent);
  follow(false);
}

function draw_table() {
  let value;
  try {
    value = JSON.parse(run.said);
  } catch {
    return;  // cut at its length
  }
  const source = make('details', '', make('summary', '', 'JSON'), make('pre', '', run.said));
  run.answer.replaceChildren(make_value(value));
  run.answer.after(source);
}

// The question and its pictures go back to where they came from, unless something else is there by now. What was said
// stays on the page, and is no part of the conversation.
function give_back(failure) {
  if (failure.status === 401) ask_for_key(failure.message);
  if (failure.name !== 'AbortError') show_error('ask-error', failure.message);
  run.answer.classList.remove('running');
  if (run.said) set_text(run.cost, 'cut off'); else run.row.remove();
  get('question').value ||= run.text;
  waiting.unshift(...run.pictures);
  draw_waiting();
}

function renew() {
  run?.abort.abort();
  messages.length = 0;
  get('turns').replaceChildren();
  show_error('ask-error', '');
  draw_buttons();
  get('question').focus();
}

// ---- The form of answers
async function choose_form() {
  const name = get('form').value;
  get('schema-box').hidden = !name;
  if (!name || name === 'own') return;
  try {
    get('schema').value = await (await reach(`/schemas/${name}`, {headers: headers()})).text();
  } catch (failure) {
    show_error('ask-error', failure.message);
  }
}

// ---- Keys, the clipboard, files that are dropped
function press_key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === '/' && !event.target.closest('input, textarea, select')) {
    event.preventDefault();
    get('question').focus();
  }
  if (event.key === 'Escape') run?.abort.abort();
  if (event.key === 'Enter' && !event.shiftKey && event.target.id === 'question') ask(event);
}

function paste(event) {
  if (!event.clipboardData.files.length) return;
  event.preventDefault();
  add_files(event.clipboardData.files);
}

function drag(event) {
  event.preventDefault();
  get('drop').hidden = event.type !== 'dragover';
  if (event.type !== 'drop') return;
  const {files} = event.dataTransfer;
  if (files.length) add_files(files); else show_error('ask-error', 'Only files can be dropped: save the picture first.');
}

function start() {
  apply_theme();
  make_figures(get('speed'), kFigures);
  for (const [name] of kFigures) set_text(get(`speed-${name}`), '\u2013');
  get('theme').addEventListener('click', next_theme);
  get('ask').addEventListener('submit', ask);
  get('stop').addEventListener('click', () => run?.abort.abort());
  get('renew').addEventListener('click', renew);
  get('form').addEventListener('change', choose_form);
  get('key-form').addEventListener('submit', take_key);
  get('question').addEventListener('input', draw_buttons);
  for (const name of ['add', 'choose']) get(name).addEventListener('click', () => get('files').click());
  get('files').addEventListener('change', () => {
    add_files(get('files').files);
    get('files').value = '';
  });
  document.addEventListener('keydown', press_key);
  document.addEventListener('paste', paste);
  for (const name of ['dragover', 'dragleave', 'drop']) document.addEventListener(name, drag);
  document.addEventListener('visibilitychange', poll);
  choose_form();
  draw_waiting();
  poll();
  setInterval(poll, kPollEvery_ms);
}
document.addEventListener('DOMContentLoaded', start);
