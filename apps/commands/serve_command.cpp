// ocellus serve
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <functional>
#include <memory>

#include "apps/base/branches.h"
#include "apps/base/failure.h"
#include "apps/base/number_validator.h"
#include "apps/base/plain_text.h"
#include "apps/base/sizes.h"
#include "apps/base/terminal.h"
#include "apps/base/value_flags.h"
#include "apps/commands/commands.h"
#include "apps/commands/plan_table.h"
#include "apps/setup/options.h"
#include "apps/setup/policy_report.h"
#include "apps/setup/setup.h"
#if OCELLUS_HAS_HTTP
#include "apps/base/stop_request.h"
#include "apps/serve/chat_server.h"
#include "apps/serve/talk_page.h"
#endif

namespace ocellus::app {
namespace {

struct ServeCommand {
  CommonOptions common;
  std::string http = "127.0.0.1:8080";
  std::string token;
  std::string token_file;
  std::string key_file;
  std::vector<std::string> cors_origins;
  std::vector<std::string> aliases;
  bool any_model = false;
  bool strict = false;
  bool forgets = false;
  int32_t retrievals = 0;
  std::string retrieve_pattern;
  int32_t queue = 16;
  int32_t choices = 8;
  std::optional<int32_t> schemas;  // nullopt: as many as sessions
  int32_t clip_frames = 0;
  int32_t deadline_s = 60;
};

constexpr char kServeHelp[] =
    "End points:\n"
    "  POST /v1/chat/completions, /v1/responses  messages with text and pictures (as data URLs)\n"
    "  POST /v1/completions  texts or tokens to continue\n"
    "  POST /v1/embeddings  texts and pictures\n"
    "  POST /tokenize, /detokenize  texts and tokens, as in llama.cpp's server\n"
    "  POST /v1/files  a picture for its user's library; GET and DELETE /v1/files/ID show and remove it\n"
    "  GET /  a page for browsers, to talk with pictures\n"
    "  GET /v1/models, /healthz, /metrics  the model, the server's state, and metrics for Prometheus\n"
    "Paths are also found without /v1. Ctrl-C ends the server.\n\n"
    "Prompts:\n"
    "Pictures before or after a message's text precede it, as in `ocellus chat`. White space around answers is "
    "removed. "
    "A session continues from what it has read where a user's next prompt begins in the same way, up to its last "
    "picture "
    "or the beginning of its last turn; cached_tokens counts that. With --batch-invariant answers are the same, bit by "
    "bit, as if it had read all of it, and prompts are read picture by picture and turn by turn. This is off with "
    "--kv-bits below 16, --evict, --reduce and --reuse. Equal pictures are encoded once, except with --api-keys. With "
    "--reuse, other than carry, conversations of a user share pictures on the device (--shared-images).\n\n"
    "Answers:\n"
    "An answer ends where its conversation has no more room (--text-tokens), with finish_reason length: max_tokens -1, "
    "or above that, is no other limit. response_format, structured_outputs (json, regex, choice, grammar; as in vLLM) "
    "and grammar (GBNF, as in llama.cpp's server) say what an answer may be; what cannot be held is refused with its "
    "place. tools are shown to models whose chat template has them; with tool_choice required or a function, to any. "
    "Calls are streamed whole. logprobs are those of the model, at temperature 1. A request that reaches its deadline "
    "ends with finish_reason length, or with 504 if it had no answer yet.\n\n"
    "Thoughts:\n"
    "Thoughts of thinking models are in reasoning_content, beside content and in the deltas of streams, and not in "
    "max_tokens. thinking_token_budget is the request's own --think-tokens, within the planned text. reasoning_tokens "
    "counts them, completion_tokens also the marks around them.\n\n"
    "Library:\n"
    "With --library DIR, POST /v1/files (fields file, purpose, caption, expires_after[seconds]) keeps a picture for "
    "its "
    "user. Messages name it by the URL library:ID, or by words of its name or caption: <retrieve: WORDS, n>. The user "
    "is "
    "the key's (--api-keys), else --owner; `ocellus library quota` limits it. With --api-keys the metrics, which are "
    "sums over all users, need a key of the user metrics. With --retrievals N the model may ask as well: where its "
    "answer has the pattern, the best of the user's pictures for the words follows, and the answer continues. Say so "
    "in "
    "the system message. `retrieved` lists what was found.\n\n"
    "Clients:\n"
    "Clients take turns: the one with the fewest running answers is next; where the queue is full, the one with the "
    "most in it loses its newest request, with 429. A client is the key's user, else the address, and at its turn each "
    "request's `user` or, on this machine, connection has one.\n";

#if OCELLUS_HAS_HTTP

constexpr int32_t kDefaultSessions = 4;
constexpr int32_t kServedImages = 8;
constexpr int64_t kMostSharedImages = 65536;
constexpr int32_t kServedTextTokens = 2048;
constexpr int64_t kBodyBytes = int64_t{32} << 20;
constexpr int64_t kAllBodyBytes = int64_t{64} << 20;
constexpr int64_t kStreamBytes = int64_t{256} << 10;
constexpr int32_t kConnections = 128;

// Names of the model: those of --alias, else its own, restricted to characters of a path and a header; both and a
// generic one are taken.
ServedNames served_names(const ServeCommand& command, const Model& model) {
  std::string name = model.facts.name;
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return c >= 128 || (std::isalnum(c) == 0 && c != '-' && c != '_' && c != '.'); }, '-');
  if (name.empty()) name = "model";
  if (command.aliases.empty()) return {.listed = {name}, .others = {"ocellus"}, .any = command.any_model};
  return {.listed = command.aliases, .others = {name, "ocellus"}, .any = command.any_model};
}

void check_aliases(const std::vector<std::string>& aliases) {
  constexpr size_t kMaxBytes = 200;
  for (const std::string& name : aliases) {
    const bool is_plain = std::all_of(name.begin(), name.end(), [](unsigned char c) { return c > ' ' && c < 127; });
    if (name.empty() || name.size() > kMaxBytes || !is_plain)
      throw Failure(kExitUsage, "--alias " + shorten(name) + ": give 1 to 200 ASCII characters without spaces.");
  }
}

// With keys every request has an owner of its own.
void choose_owner(const std::vector<HttpKey>& keys, LibraryOptions* library) {
  if (keys.empty() || library->path.empty()) return;
  if (!library->owner.empty()) throw Failure(kExitUsage, "--api-keys names the owners: leave out --owner.");
  library->owner = keys.front().user;
}

// By default there are as many as the sessions would have each on its own: then no request waits for a place, and
// those that no session links keep pictures for later requests.
void choose_shared_images(int64_t images, CommonOptions* common) {
  std::optional<int32_t>& shared = common->reuse.shared_images;
  if (!shared && can_share_images(*common))
    shared = static_cast<int32_t>(std::min<int64_t>(images * *common->sessions, kMostSharedImages));
  if (can_share_images(*common) && shared.value_or(0) > 0 && *shared < images)
    throw Failure(kExitUsage, "--shared-images " + std::to_string(*shared) +
                                  " holds less than the pictures of one request: give " + std::to_string(images) +
                                  " or more, or 0.");
}

// Identifies what changes answers to equal requests, in OpenAI's form.
std::string make_fingerprint(const Model& model, const ocellus_limits& limits) {
  const ocellus_model_facts& facts = model.facts;
  const std::string all = std::string(ocellus_version()) + '\n' + facts.name + '\n' + facts.weight_format + '\n' +
                          std::to_string(facts.parameter_count) + '\n' + describe_policy(limits) + '\n' +
                          std::to_string(limits.batch_invariant) +
                          (limits.cpu_math == OCELLUS_CPU_MATH_BF16 ? "\nbf16" : "");
  char text[24];
  std::snprintf(text, sizeof text, "fp_%010llx", std::hash<std::string>()(all) & 0xff'ffff'ffffULL);
  return text;
}

// True if what a prompt begins with is read as the same keys and values whatever follows: in 16 bits, all of it, and in
// its place.
bool keeps_beginnings(const ocellus_limits& limits) {
  const ocellus_cache_policy& cache = limits.cache;
  const auto is_none = [](const char* method) { return *method == '\0' || std::string_view(method) == "none"; };
  return limits.reuse == OCELLUS_REUSE_NONE && cache.kv_bits == 16 && cache.layer_bits_count == 0 &&
         is_none(cache.evict) && is_none(limits.reduce);
}

Sessions open_sessions(Running* running) {
  Sessions sessions;
  sessions.push_back(std::move(running->session));
  while (std::ssize(sessions) < running->limits.max_sessions) sessions.push_back(take(Session::open(running->engine)));
  return sessions;
}

ServeOptions serve_options(const ServeCommand& command, const Model& model, const Running& running) {
  ServeOptions options;
  options.queue = command.queue;
  options.choices = command.choices;
  options.clip_frames = command.clip_frames;
  options.deadline_s = command.deadline_s;
  options.cache_bytes = std::max<int64_t>(
      running.plan.kv_bytes_per_session * running.limits.max_sessions + running.plan.kv_bytes_shared, 1);
  options.names = served_names(command, model);
  options.fingerprint = make_fingerprint(model, running.limits);
  options.sees = model.facts.has_vision != 0;
  options.text_tokens = running.limits.max_text_tokens;
  options.images = running.limits.max_images - command.retrievals;
  options.retrievals = command.retrievals;
  options.form = find_retrieval_form(model.facts.chat_template, command.retrieve_pattern);
  options.strict = command.strict;
  options.params = generate_params(command.common);
  options.vocabulary = model.facts.vocabulary_size;
  options.thinking = model.facts.thinking;
  options.calls_tools = model.facts.calls_tools;
  options.image_numbers = model.facts.image_numbers;
  options.default_system = model.default_system();
  options.forms = running.limits.max_constraints;
  if (!command.common.quiet) options.note = [](const std::string& line) { print_note("ocellus: " + line); };
  options.enter = [&] { raise_priority(command.common.real_time); };
  options.shares = running.limits.shared_images > 0;
  options.keeps_beginnings = !command.forgets && keeps_beginnings(running.limits);
  options.same_bits = running.limits.batch_invariant != 0;
  options.owner = command.common.library.owner;
  return options;
}

int run_serve(ServeCommand command) {
  HttpOptions http = parse_http_address(command.http);
  http.token = command.token_file.empty() ? command.token : read_token_file(command.token_file);
  if (!command.key_file.empty()) http.keys = read_key_file(command.key_file);
  http.cors_origins = command.cors_origins;
  http.prefix = "/v1";
  check_aliases(command.aliases);
  http.body_bytes = kBodyBytes;
  http.all_body_bytes = kAllBodyBytes;
  http.stream_bytes = kStreamBytes;
  http.connections = kConnections;
  HttpServer server(http);  // refuses bad addresses before anything is loaded
  CommonOptions& common = command.common;
  choose_owner(http.keys, &common.library);
  // Users with keys could learn from the time of an answer that another one has sent the same picture.
  common.reuse.keeps_views = http.keys.empty();
  if (command.retrievals > 0 && common.library.path.empty()) {
    throw Failure(kExitUsage, "--retrievals takes pictures from a library: add --library.");
  }
  (void)find_retrieval_form("", command.retrieve_pattern);  // refuses bad ones before anything is loaded
  const Model model = open_model(common);
  common.sessions = common.sessions.value_or(kDefaultSessions);
  common.constrain.planned = command.schemas.value_or(has_branch("constrain") ? *common.sessions : 0);
  if (common.constrain.planned > 0 && common.constrain.planned < *common.sessions)
    throw Failure(kExitUsage, "--schemas " + std::to_string(common.constrain.planned) +
                                  ": each session may need one: give " + std::to_string(*common.sessions) +
                                  " or more, or 0.");
  common.top_logprobs = OCELLUS_MOST_TOP_LOGPROBS;
  choose_text_tokens(model.facts, kServedTextTokens, 1, &common);
  const int64_t images = model.facts.has_vision ? common.images.value_or(kServedImages) : 0;
  if (command.retrievals > 0) common.images = static_cast<int32_t>(images) + command.retrievals;
  choose_shared_images(images + command.retrievals, &common);
  const int64_t http_bytes = most_http_bytes(http) + kMaxReadingBytes + kMaxTokenizingBytes + kMaxWritingBytes;
  const Needs needs = {.images = images + command.retrievals, .clip_frames = command.clip_frames};
  Running running = start(model, common, with_photos(model, common, needs));
  if (!common.quiet) {
    print_notes(plan_table(running.plan, PlanRows::kSums) + "\n");
    print_note(describe_http_bytes(http_bytes));
    if (model.facts.has_vision) print_note("ocellus: " + describe_pictures(running.limits) + ".");
  }
  const ServeOptions options = serve_options(command, model, running);
  ServeMetrics metrics(http_bytes);
  metrics.set_plan(running.plan);
  watch_for_stop();
  const Library* const library = running.library ? &running.library : nullptr;
  ChatScheduler scheduler(model.get(), open_sessions(&running), running.engine, library, options, &metrics);
  add_chat_endpoints(&server, &scheduler, &metrics, options.names);
  add_talk_page(&server, !http.keys.empty());
  server.start();
  print_urls(server.urls(), http.token);
  wait_for_stop();
  if (!common.quiet) print_note("ocellus: stopping ...");
  scheduler.stop();
  server.stop();
  return kExitOk;
}

#else

int run_serve(const ServeCommand& /*command*/) {
  throw Failure(kExitUsage, "this build has no HTTP server: libmicrohttpd was missing when it was built.");
}

#endif

// Adds the flags that say who may send requests. `options` must outlive the parser.
void add_access_flags(CLI::App* command, ServeCommand* options) {
  const auto add = [command](const char* flag, auto* target, const char* form, const char* meaning) {
    return add_value(command, "Access", flag, form, target, meaning);
  };
  const auto token =
      add("--token", &options->token, "TOKEN", "API key of all clients. Required for addresses other than loopback");
  const auto file =
      add("--token-file", &options->token_file, "FILE", "File with the token. Other users can read arguments");
  file->excludes(token);
  add("--api-keys", &options->key_file, "FILE",
      "File of lines KEY USER. The file must be its owner's only; each user has pictures of its own")
      ->excludes(token)
      ->excludes(file);
  add("--cors", &options->cors_origins, "ORIGIN", "Accept requests from web pages of this origin. May be repeated")
      ->allow_extra_args(false);
}

void add_server_flags(CLI::App* command, ServeCommand* options) {
  const auto add = [command](const char* flag, auto* target, const char* form, const char* meaning) {
    return add_value(command, "Server", flag, form, target, meaning);
  };
  add("--http", &options->http, "ADDRESS:PORT", "Where to listen (default: 127.0.0.1:8080). Port 0: any that is free");
  add("--queue", &options->queue, "N", "Maximum waiting requests (default: 16). Running ones do not count")
      ->check(number_between(0, 4096));
  add("--deadline", &options->deadline_s, "SECONDS", "Time limit of a request (default: 60)")
      ->check(number_between(1, 86400));
  add("--alias", &options->aliases, "NAME",
      "Name of the model in requests and lists. Its own stays valid; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--any-model", options->any_model, "Accept requests for a model of any name (default: 404)")
      ->group("Server");
}

void add_request_flags(CLI::App* command, ServeCommand* options) {
  const auto add = [command](const char* flag, auto* target, const char* form, const char* meaning) {
    return add_value(command, "Requests", flag, form, target, meaning);
  };
  command->add_flag("--strict", options->strict, "Refuse requests with unknown fields (default: ignore them)")
      ->group("Requests");
  add("--choices", &options->choices, "N", "Maximum answers of one request, its `n` (default: 8)")
      ->check(number_between(1, 128));
  add("--schemas", &options->schemas, "N",
      "Schemas and grammars that stay compiled (default: one a session). Their memory is planned; with 0 requests for "
      "them are refused")
      ->check(number_between(0, 256));
  add("--clip-frames", &options->clip_frames, "N",
      "Maximum frames of videos in a conversation (default: 0). They come besides its pictures, of which each is then "
      "one view")
      ->check(number_between(0, 999));
  add("--retrievals", &options->retrievals, "N",
      "Pictures that the model may ask for in an answer (default: 0). They are the user's, from --library, and planned")
      ->check(number_between(0, 64));
  add("--retrieve-pattern", &options->retrieve_pattern, "BEGIN...END",
      "How the model asks (default: <retrieve:...>). The words stand in the middle");
  command->add_flag("--no-prompt-reuse", options->forgets, "Read every prompt from its beginning")->group("Requests");
}

}  // namespace

void add_serve_command(CLI::App* program, Action* action) {
  const auto options = std::make_shared<ServeCommand>();
  CLI::App* command = program->add_subcommand("serve", "Serve OpenAI's chat API over HTTP");
  add_server_flags(command, options.get());
  add_access_flags(command, options.get());
  add_request_flags(command, options.get());
  add_shared_flags(command, &options->common);
  command->footer(kServeHelp);
  command->callback([=] { *action = [=] { return run_serve(*options); }; });
}

}  // namespace ocellus::app
