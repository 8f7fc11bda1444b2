#include "tests/stress/race_desk.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <stdexcept>

namespace ocellus::test {
namespace {

constexpr int kVariants = 3;
/// Of the others one shows enough: what they read is what a talk reads.
int variants_of(TaskKind kind) { return kind == TaskKind::kTalk || kind == TaskKind::kConstrained ? kVariants : 1; }

int64_t now() { return deadline_ns(Clock::now()); }

void set_text(char (&to)[OCELLUS_METHOD_TEXT], std::string_view text) { to[text.copy(to, sizeof to - 1)] = '\0'; }

void plan_speaking(ocellus_limits* limits) {
  limits->draft_rows = 4;
  limits->max_constraints = 2;
}

void plan_clips(ocellus_limits* limits) { limits->max_clip_frames = 4; }

void plan_kept_views(ocellus_limits* limits) {
  limits->kept_views = 4;
  limits->batch_invariant = 1;
}

void plan_library(ocellus_limits* limits) {
  limits->reuse = OCELLUS_REUSE_MPIC;
  limits->reuse_rows = 4;
  limits->library = 1;
}

void plan_library_in_memory(ocellus_limits* limits) {
  plan_library(limits);
  limits->library_cache_bytes = int64_t{1} << 20;
  limits->max_constraints = 1;
}

void plan_shared_images(ocellus_limits* limits) {
  plan_library(limits);
  limits->shared_images = 6;
}

void plan_packed_library(ocellus_limits* limits) {
  limits->reuse = OCELLUS_REUSE_SPREAD;
  limits->reuse_rows = 8;
  limits->library = 1;
  limits->cache.kv_bits = 4;
}

void plan_eviction(ocellus_limits* limits) {
  set_text(limits->cache.evict, "snapkv");
  limits->cache.keep = 0.5f;
  limits->lean = 1;
}

void require(Status status, const char* what) {
  if (!status) throw std::runtime_error(std::string(what) + ": " + Status::sentence());
}

/// Every batch of a real machine's memory is counted, so that what an engine took is known to have come back.
void* allocate(void* user, int64_t bytes) {
  static_cast<std::atomic<int64_t>*>(user)->fetch_add(1, std::memory_order_relaxed);
  return std::malloc(static_cast<size_t>(bytes));
}
void deallocate(void* user, void* memory) {
  static_cast<std::atomic<int64_t>*>(user)->fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

bool is_interruption(ocellus_status status) { return status == OCELLUS_CANCELLED || status == OCELLUS_DEADLINE; }

std::string place_of(const DeskPlan& plan, const Task& task) {
  return std::string(plan.name) + ", " + task_name(task.kind) + " " + std::to_string(task.variant) + " in manner " +
         std::to_string(static_cast<int>(task.manner));
}

}  // namespace

const std::vector<DeskPlan> kDeskPlans = {
    {"speaker", "smolvlm", nullptr, 3, 2, 2, false, plan_speaking},
    {"clips", "qwen3-vl", nullptr, 2, 3, 1, false, plan_clips},
    {"window", "gemma3", nullptr, 2, 1, 1, false, plan_kept_views},
    {"shapes", "", nullptr, 2, 2, 2, false, plan_speaking},
    {"shelf", "llava-1.5", "ann", 2, 2, 2, true, plan_library},
    {"shelf in memory", "llava-1.5", "ann", 2, 1, 1, false, plan_library_in_memory},
    {"shared shelf", "llava-1.5", "bob", 3, 2, 1, true, plan_shared_images},
    {"packed shelf", "", "ann", 1, 4, 1, false, plan_packed_library},
    {"eviction", "qwen2-vl", nullptr, 2, 2, 1, false, plan_eviction}};

Desk::Desk(const DeskPlan& plan, const Model& model, const Library* library)
    : plan_(plan),
      model_(model),
      threads_(plan.threads),
      library_(plan.owner != nullptr ? library : nullptr),
      facts_(*model.facts()) {
  limits_ = limits();
  limits_.device = OCELLUS_DEVICE_CPU;
  limits_.max_sessions = plan.sessions;
  limits_.max_images = 2;
  limits_.max_text_tokens = 200;
  limits_.max_image_pixels = 640 * 480;
  plan.choose(&limits_);
}

Desk::~Desk() {
  places_.clear();
  engine_ = {};
}

ocellus_engine_config Desk::configure(int32_t threads) {
  ocellus_engine_config config = engine_config();
  config.limits = limits_;
  config.limits.thread_count = threads;
  config.log_user = config.trace_user = &messages_;
  config.log = [](void* user, int32_t, const char* text) {
    static_cast<std::atomic<int64_t>*>(user)->fetch_add(text[0] != '\0', std::memory_order_relaxed);
  };
  config.trace = [](void* user, const char* name, int64_t, int64_t) {
    static_cast<std::atomic<int64_t>*>(user)->fetch_add(name[0] != '\0', std::memory_order_relaxed);
  };
  return config;
}

Seat Desk::seat_of(Place& place) {
  return {&engine_,
          &place.session,
          limits_.max_images,
          facts_.clip_frames > 0 ? limits_.max_clip_frames : 0,
          std::max(facts_.width, 8192),
          library_ != nullptr ? &place.keys : nullptr};
}

void Desk::find_expected() {
  Result<Engine> engine = Engine::create(model_, configure(1));
  require(engine.status(), plan_.name);
  Result<Session> session = Session::open(*engine);
  require(session.status(), plan_.name);
  Place place;
  Seat seat = seat_of(place);
  seat.engine = &*engine;
  seat.session = &*session;
  seat.keys = nullptr;
  for (const TaskKind kind : kTaskKinds) {
    if (kind == TaskKind::kConstrained && limits_.max_constraints == 0) continue;
    if (kind == TaskKind::kClip && seat.clip_frames == 0) continue;
    for (int variant = 0; variant < variants_of(kind); ++variant) {
      Expected one{{kind, variant, Manner::kWhole}, {}};
      Calls calls;
      do_task(seat, one.task, calls, &one.outcome);
      if (calls.status() == OCELLUS_UNSUPPORTED) continue;
      if (!calls.ok()) throw std::runtime_error(place_of(plan_, one.task) + ": " + calls.sentence());
      expected_.push_back(one);
    }
  }
}

void Desk::open() {
  ocellus_engine_config config = configure(threads_);
  ocellus_allocator counted = allocator();
  counted.allocate = allocate;
  counted.deallocate = deallocate;
  counted.user = &balance_;
  config.allocator = &counted;
  Result<Engine> engine = Engine::create(model_, config);
  require(engine.status(), plan_.name);
  engine_ = std::move(*engine);
  if (places_.empty()) places_.resize(static_cast<size_t>(plan_.sessions));
  for (Place& place : places_) open_session(place);
}

void Desk::open_session(Place& place) {
  Result<Session> session = Session::open(engine_);
  require(session.status(), plan_.name);
  place.session = std::move(*session);
  place.keys.assign(static_cast<size_t>(picture_count()), "");
  if (library_ != nullptr) require(place.session.set_library(*library_, plan_.owner), plan_.name);
}

bool Desk::is_quiet() const {
  return std::none_of(places_.begin(), places_.end(), [](const Place& place) { return place.is_talking; });
}

/// One at which nobody is talking; null if there is none.
Desk::Place* Desk::choose_place(Random& random) {
  const size_t first = static_cast<size_t>(random.integer(0, plan_.sessions - 1));
  for (size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[(first + i) % places_.size()];
    if (!place.is_talking) return &place;
  }
  return nullptr;
}

void Desk::work(uint64_t seed, Clock::time_point end, Tally* tally) {
  Random random(seed);
  while (Clock::now() < end) work_once(random, tally);
}

void Desk::work_once(Random& random, Tally* tally) {
  const int64_t choice = random.integer(0, 99);
  if (choice < 12) return talk_in_turns(random, tally);
  const std::lock_guard<std::mutex> lock(turn_);
  if (choice < 70) return try_task(random, tally);
  if (choice < 82) return try_batch(random, tally);
  if (choice < 90) return reopen(random, tally);
  if (choice < 95) return search(random, tally);
  look(tally);
}

Task Desk::draw_task(Random& random, const Outcome** expected) {
  const Expected& one = expected_[static_cast<size_t>(random.integer(0, std::ssize(expected_) - 1))];
  Task task = one.task;
  task.manner = kManners[random.integer(0, std::ssize(kManners) - 1)];
  if (task.manner == Manner::kDrafted && limits_.draft_rows == 0) task.manner = Manner::kWhole;
  *expected = &one.outcome;
  return task;
}

/// One in two is cancelled, one in eight has a deadline, within the time that this kind of work has taken.
void Desk::threaten(Place& place, Random& random, const char* kind) {
  const int64_t usual = std::max<int64_t>(usual_ns_[kind], 1'000'000);
  const int64_t at = now() + random.integer(0, usual + usual / 4);
  const int64_t choice = random.integer(0, 7);
  clockid_t worker = {};
  pthread_getcpuclockid(pthread_self(), &worker);
  place.worker.store(worker, std::memory_order_relaxed);
  place.cancelled_ns.store(0, std::memory_order_relaxed);
  if (choice < 4) place.cancel_at_ns.store(at, std::memory_order_relaxed);
  if (choice == 4) ocellus_session_set_deadline(place.session.get(), at);
}

/// Ends the threat, and keeps how long the last call went on after it was cancelled.
void Desk::calm(Place& place, Tally* tally, const Calls& calls) {
  place.cancel_at_ns.store(0, std::memory_order_relaxed);
  place.session.clear_deadline();
  const int64_t cancelled = place.cancelled_ns.load(std::memory_order_relaxed);
  if (calls.made().empty() || calls.status() != OCELLUS_CANCELLED) return;
  const Calls::Made& last = calls.made().back();
  const int64_t worked =
      worked_ns(CLOCK_THREAD_CPUTIME_ID) - place.worked_until_stop_ns.load(std::memory_order_relaxed);
  if (cancelled >= last.begin_ns && cancelled <= last.end_ns)
    tally->stop_ms[last.name].push_back(static_cast<double>(worked) * 1e-6);
}

/// True after a cancellation or a deadline, which is all that may go wrong.
bool Desk::is_stopped(Place& place, const Calls& calls, const char* kind, Tally* tally) {
  calm(place, tally, calls);
  ++tally->done[std::string(kind) + (calls.status() == OCELLUS_CANCELLED  ? ", cancelled"
                                     : calls.status() == OCELLUS_DEADLINE ? ", too late"
                                                                          : "")];
  if (calls.ok()) {
    for (const Calls::Made& one : calls.made())
      tally->whole_ms[one.name].push_back(static_cast<double>(one.worked_ns) * 1e-6);
    usual_ns_[kind] = calls.made().back().end_ns - calls.made().front().begin_ns;
    return false;
  }
  if (!is_interruption(calls.status()))
    tally->fail(std::string(plan_.name) + ", " + kind + ": " + calls.made().back().name + ": " + calls.sentence());
  return true;
}

void Desk::try_task(Random& random, Tally* tally) {
  Place* const place = choose_place(random);
  if (place == nullptr) return;
  const Outcome* expected = nullptr;
  const Task task = draw_task(random, &expected);
  Outcome outcome;
  Calls calls;
  threaten(*place, random, task_name(task.kind));
  do_task(seat_of(*place), task, calls, &outcome);
  if (is_stopped(*place, calls, task_name(task.kind), tally) || outcome == *expected) return;
  tally->fail(place_of(plan_, task) + ": \"" + outcome.text + "\" for \"" + expected->text + "\"");
}

/// Answers of all sessions where nobody is talking, decoded together.
void Desk::try_batch(Random& random, Tally* tally) {
  std::vector<ocellus_session*> sessions;
  std::vector<ocellus_generate_params> params;
  std::vector<const Outcome*> expected;
  std::deque<std::string> texts;
  std::deque<OnText> takers;
  std::vector<Place*> places;
  for (Place& place : places_) {
    if (place.is_talking) continue;
    Task task{TaskKind::kTalk, static_cast<int>(random.integer(0, kVariants - 1)), Manner::kWhole};
    Calls calls;
    calls.make("reset", [&] { return place.session.forget_all(); });
    add_prompt(seat_of(place), task, calls);
    if (!calls.ok()) {
      if (!is_interruption(calls.status())) tally->fail(place_of(plan_, task) + ": " + calls.sentence());
      continue;
    }
    sessions.push_back(place.session.get());
    params.push_back(task_params(task));
    places.push_back(&place);
    const auto is_same = [&](const Expected& one) {
      return one.task.kind == task.kind && one.task.variant == task.variant;
    };
    expected.push_back(&std::find_if(expected_.begin(), expected_.end(), is_same)->outcome);
    texts.emplace_back();
    params.back().user = &texts.back();
    params.back().on_text = [](void* user, const char* text, int32_t bytes) {
      static_cast<std::string*>(user)->append(text, static_cast<size_t>(bytes));
      return 0;
    };
  }
  if (sessions.empty()) return;
  std::vector<ocellus_generate_stats> stats(sessions.size());
  Calls calls;
  threaten(*places.front(), random, "batch");
  calls.make("batch_generate", [&] { return batch_generate(sessions, params, stats); });
  const bool was_stopped = is_stopped(*places.front(), calls, "batch", tally);
  for (size_t i = 0; i < sessions.size(); ++i) {
    if (was_stopped && stats[i].stop >= OCELLUS_STOP_CANCELLED) continue;
    if (texts[i] == expected[i]->text && stats[i].logits_hash == expected[i]->hash) continue;
    tally->fail(std::string(plan_.name) + ", batch " + std::to_string(i) + " of " + std::to_string(sessions.size()) +
                ": \"" + texts[i] + "\" for \"" + expected[i]->text + "\"");
  }
}

/// A conversation between whose calls other threads use the engine.
void Desk::talk_in_turns(Random& random, Tally* tally) {
  Place* place = nullptr;
  {
    const std::lock_guard<std::mutex> lock(turn_);
    place = choose_place(random);
    if (place == nullptr) return;
    place->is_talking = true;
    threaten(*place, random, "talk in turns");
  }
  const Task task{TaskKind::kTalk, static_cast<int>(random.integer(0, kVariants - 1)), Manner::kSliced};
  Outcome outcome;
  Calls calls(&turn_);
  do_task(seat_of(*place), task, calls, &outcome);
  const std::lock_guard<std::mutex> lock(turn_);
  (void)is_stopped(*place, calls, "talk in turns", tally);
  place->is_talking = false;
}

/// A session, or the engine with all of them.
void Desk::reopen(Random& random, Tally* tally) {
  const std::lock_guard<std::mutex> lock(life_);
  if (random.integer(0, 3) != 0 || !is_quiet()) {
    Place* const place = choose_place(random);
    if (place == nullptr) return;
    place->session = {};
    open_session(*place);
    ++tally->done["open session"];
    return;
  }
  for (Place& place : places_) place.session = {};
  engine_ = {};
  if (const int64_t left = balance_.load(std::memory_order_relaxed); left != 0)
    tally->fail(std::string(plan_.name) + ": an engine kept " + std::to_string(left) + " pieces of memory");
  open();
  ++tally->done["create engine"];
}

void Desk::look(Tally* tally) {
  const Result<ocellus_engine_stats> stats = engine_.stats();
  if (!stats || (*stats).arena_bytes <= 0) tally->fail(std::string(plan_.name) + ": no statistics");
  ++tally->done["statistics"];
}

/// What of the library is like a picture, and one that no owner has.
void Desk::search(Random& random, Tally* tally) {
  Place* const place = choose_place(random);
  if (library_ == nullptr || place == nullptr) return look(tally);
  const auto picture = static_cast<int32_t>(random.integer(0, picture_count() - 1));
  ocellus_library_hit hits[3] = {};
  Calls calls;
  threaten(*place, random, "search");
  calls.make("reset", [&] { return place->session.forget_all(); }).make("search_library", [&] {
    return place->session.search_library(picture_bytes(picture), hits).status();
  });
  if (is_stopped(*place, calls, "search", tally)) return;
  if (place->session.add_library_image("00000000000000000000000000000000").code() != OCELLUS_BAD_ARGUMENT)
    tally->fail(std::string(plan_.name) + ": an entry that is not there was added");
}

void Desk::cancel_due() {
  const std::lock_guard<std::mutex> lock(life_);
  for (Place& place : places_) {
    int64_t at = place.cancel_at_ns.load(std::memory_order_relaxed);
    if (at == 0 || now() < at || !place.session) continue;
    if (!place.cancel_at_ns.compare_exchange_strong(at, 0, std::memory_order_relaxed)) continue;
    place.cancelled_ns.store(now(), std::memory_order_relaxed);
    place.worked_until_stop_ns.store(worked_ns(place.worker.load(std::memory_order_relaxed)),
                                     std::memory_order_relaxed);
    place.session.cancel();
  }
}

}  // namespace ocellus::test
