// The viewer's own camera as the source of `ocellus watch browser`: its frames go to the program as JPEG files, one at a
// time, each with its age. Uses what watch.js has.
'use strict';

const kSendEvery_ms = 1000 / 15;
const kMaxSentPixels = 1280 * 720;
const kSentQuality = 0.8;
const kFrameWait_ms = 1000;  // a hidden tab is not notified of new frames: then it sends the current one
const kRetry_ms = 500;
const kTakeOver_ms = 8000;   // wait for a page that has just stopped, or for itself before a reload

const sending_camera = {run: null, starting: false};
const kSender = Math.random().toString(36).slice(2);

const kCameraFailures = {
  NotAllowedError: 'The browser did not give its camera: allow it beside the address, then try again.',
  NotFoundError: 'The browser finds no camera on this machine.',
  NotReadableError: 'The camera cannot be read; another program may be using it.',
};

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
const is_sending = () => sending_camera.run !== null;

// Returns the chosen camera, or another if it is missing.
async function open_camera(chosen) {
  const size = {width: {ideal: 1280}, height: {ideal: 720}};
  const open = which => navigator.mediaDevices.getUserMedia({audio: false, video: {...size, ...which}});
  try {
    if (chosen) return await open({deviceId: {exact: chosen}});
  } catch (failure) {
    if (failure.name !== 'OverconstrainedError' && failure.name !== 'NotFoundError') throw failure;
  }
  return open({facingMode: {ideal: 'environment'}});
}

async function start_camera() {
  if (sending_camera.starting) return;
  if (!navigator.mediaDevices?.getUserMedia) {
    const how = `open http://127.0.0.1:${location.port || 80} on it, or forward the port with ssh -L.`;
    return stop_camera(`Browsers give their camera to pages of the same machine, or over HTTPS: ${how}`);
  }
  stop_camera('');
  sending_camera.starting = true;
  draw_camera();
  try {
    const stream = await open_camera(recall('camera', ''));
    const run = {stream, video: make('video'), canvas: make('canvas'), begun: performance.now()};
    sending_camera.run = run;
    stream.getVideoTracks()[0].addEventListener('ended', () => {
      if (sending_camera.run === run) stop_camera('The camera of this browser was disconnected.');
    });
    Object.assign(run.video, {muted: true, playsInline: true, srcObject: stream});
    await run.video.play();
    send_frames(run);
    list_cameras(stream);
  } catch (failure) {
    stop_camera(kCameraFailures[failure.name] ?? `The camera cannot be used: ${failure.message}.`);
  }
  sending_camera.starting = false;
  draw_camera();
}

// `sentence` is the reason; empty if the viewer stopped it.
function stop_camera(sentence) {
  for (const track of sending_camera.run?.stream.getTracks() ?? []) track.stop();
  sending_camera.run = null;
  get('cameras').hidden = true;
  show_error('camera-error', sentence);
  draw_camera();
}

function toggle_camera() {
  if (is_sending()) stop_camera(''); else start_camera();
}

function draw_camera() {
  const {starting} = sending_camera, button = get('camera');
  button.hidden = !state?.source.posted;
  button.disabled = get('camera-first').disabled = starting;
  set_text(button, is_sending() && !starting ? 'Stop my camera' : 'Use my camera');
  button.classList.toggle('primary', !is_sending());
  button.setAttribute('aria-pressed', String(is_sending()));
  get('camera-first').hidden = button.hidden || is_sending();
  draw_standing();
}

async function list_cameras(stream) {
  const used = stream.getVideoTracks()[0].getSettings().deviceId;
  const devices = await navigator.mediaDevices.enumerateDevices();
  const cameras = devices.filter(device => device.kind === 'videoinput');
  get('cameras').replaceChildren(...cameras.map((device, place) => {
    const option = make('option', '', device.label || `Camera ${place + 1}`);
    option.value = device.deviceId;
    option.selected = device.deviceId === used;
    return option;
  }));
  get('cameras').hidden = cameras.length < 2 || !is_sending();
}

// Returns the capture time of the next frame, on the clock of performance.now().
function wait_for_frame(video) {
  return new Promise(resolve => {
    const told = video.requestVideoFrameCallback !== undefined;
    const timer = setTimeout(() => resolve(performance.now()), told ? kFrameWait_ms : kSendEvery_ms);
    video.requestVideoFrameCallback?.((now, facts) => {
      clearTimeout(timer);
      resolve(facts.captureTime ?? now);
    });
  });
}

function make_file({video, canvas}) {
  const {videoWidth: width, videoHeight: height} = video;
  const scale = Math.min(1, Math.sqrt(kMaxSentPixels / Math.max(1, width * height)));
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.getContext('2d', {alpha: false}).drawImage(video, 0, 0, canvas.width, canvas.height);
  return new Promise(resolve => canvas.toBlob(resolve, 'image/jpeg', kSentQuality));
}

async function send_frames(run) {
  while (sending_camera.run === run) {
    const begun = performance.now(), captured = await wait_for_frame(run.video);
    const file = run.video.videoWidth ? await make_file(run) : null;
    if (sending_camera.run !== run) return;
    if (file && !await send_frame(run, file, captured)) await sleep(kRetry_ms);
    const left_ms = kSendEvery_ms - (performance.now() - begun);
    if (left_ms > 0) await sleep(left_ms);  // even an empty sleep takes a second in a hidden tab
  }
}

// Returns true if the frame was accepted. A permanent error ends sending; an unreachable program is tried again.
async function send_frame(run, file, captured) {
  const age_ms = Math.min(60000, Math.max(0, Math.round(performance.now() - captured)));
  let response;
  try {
    response = await fetch(`/api/frame?sender=${kSender}&age_ms=${age_ms}`, {
      method: 'POST', body: file, headers: {'Content-Type': 'image/jpeg'}, signal: AbortSignal.timeout(8000)});
  } catch {
    return false;
  }
  if (response.ok) {
    show_error('camera-error', '');
    return true;
  }
  if (response.status === 409 && performance.now() - run.begun < kTakeOver_ms) return false;
  const answer = await response.json().catch(() => null);
  const sentence = answer?.error?.message ?? `The program answered ${response.status} without saying why.`;
  if (response.status < 500) stop_camera(sentence); else show_error('camera-error', sentence);
  return false;
}

document.addEventListener('DOMContentLoaded', () => {
  get('camera').addEventListener('click', toggle_camera);
  get('camera-first').addEventListener('click', start_camera);
  get('cameras').addEventListener('change', () => {
    remember('camera', get('cameras').value);
    start_camera();
  });
});
