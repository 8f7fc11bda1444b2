#include "apps/hub/hub_requests.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/base/terminal.h"

namespace ocellus::app {
namespace {

constexpr int64_t kWaitsMs[] = {100, 400, 1600};
constexpr int64_t kMostWaitSeconds = 300;
constexpr size_t kMostListingBytes = 64 << 20;

bool may_pass(const WebAnswer& answer) {
  const bool is_fault = answer.status == 408 || answer.status == 429 || answer.status >= 500;
  const bool is_cut = answer.status == 0 || answer.status == 200 || answer.status == 206;
  return is_fault || is_cut;
}

std::string describe_refusal(const WebAnswer& answer, const std::string& hub, const std::string& subject,
                             bool has_token) {
  const std::string said = answer.error_message.empty() ? "" : " (\"" + answer.error_message + "\")";
  const std::string token = "in HF_TOKEN or the file of a login";
  if (answer.error_code == "GatedRepo")
    return "is gated: accept its terms at " + hub + "/" + subject + ", then give a token of that account " + token;
  if (answer.error_code == "RevisionNotFound") return "has no branch main at the hub" + said;
  if (answer.error_code == "EntryNotFound") return "has no such file at the hub any more" + said + ": try again";
  if (answer.status == 401 && has_token && answer.error_code.empty())
    return "the hub does not accept the token " + token + said;
  if (answer.status == 401 || answer.error_code == "RepoNotFound")
    return std::string("there is no such model at the hub") +
           (has_token ? " that this token may read" : ", or it is private and needs a token " + token) + said;
  if (answer.status == 403) return "the hub refuses access" + said;
  if (answer.status == 404) return "the hub has no such model" + said;
  if (answer.status == 407) return "the proxy wants a name and a password, as in https_proxy=http://NAME:PASSWORD@HOST";
  if (answer.status == 429)
    return "the hub asks for fewer requests" + said + ": try again in " +
           format_count(std::max<int64_t>(answer.retry_after_s, 60), "second");
  if (answer.status >= 500)
    return "the hub fails (HTTP " + std::to_string(answer.status) + ")" + said + ": try again later";
  return "the hub answers HTTP " + std::to_string(answer.status) + said;
}

}  // namespace

Patience::Patience(std::string subject, const HubSettings& settings, bool quiet)
    : subject_(std::move(subject)), hub_(settings.endpoint), has_token_(!settings.token.empty()), quiet_(quiet) {}

std::string Patience::describe(const WebAnswer& answer) const {
  if (answer.is_final) return hub_ + " " + answer.problem;
  const bool is_refusal = answer.status != 0 && answer.status != 200 && answer.status != 206;
  if (is_refusal) return describe_refusal(answer, hub_, subject_, has_token_);
  const bool is_cut = answer.was_connected || was_connected_;
  return (is_cut ? "the connection to " + hub_ + " was cut (" : hub_ + " cannot be reached (") + answer.problem + ")";
}

void Patience::wait(const WebAnswer& answer) {
  const std::string what = describe(answer);
  was_connected_ = was_connected_ || answer.was_connected;
  const bool has_tries = ++failures_ <= static_cast<int32_t>(std::size(kWaitsMs));
  const bool may_help = !answer.is_final && may_pass(answer) && answer.retry_after_s <= kMostWaitSeconds;
  if (!has_tries || !may_help || !was_connected_) throw Failure(kExitRuntime, subject_ + ": " + what + ".");
  const int64_t wait_ms = answer.retry_after_s > 0 ? answer.retry_after_s * 1000 : kWaitsMs[failures_ - 1];
  if (!quiet_)
    print_note("ocellus: " + subject_ + ": " + what + "; trying again in " +
               format_number(static_cast<double>(wait_ms) / 1000, 1) + " s.");
  std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
}

HubListing fetch_listing(Web* web, const std::string& repository, Patience* patience) {
  std::string body;
  const auto receive = [&body](const WebAnswer&, std::string_view piece) {
    body += piece;
    return body.size() <= kMostListingBytes;
  };
  for (;;) {
    body.clear();
    const WebAnswer answer = web->get("/api/models/" + repository + "/revision/main?blobs=true", 0, receive);
    if (answer.is_stopped)
      throw Failure(kExitBadInput, repository + ": the hub's list of files is longer than 64 MiB.");
    if (answer.status == 200 && answer.problem.empty()) break;
    patience->wait(answer);
  }
  patience->reset();
  return read_listing(body, repository);
}

}  // namespace ocellus::app
