// Requests about one model, with patience: what may pass is tried again, what the hub refuses is one sentence.
#pragma once

#include <cstdint>
#include <string>

#include "apps/hub/hub_listing.h"
#include "apps/hub/web.h"

namespace ocellus::app {

// Tries after failures that may pass: a cut or silent connection, HTTP 408, 429 and 5xx. They wait for as long as the
// hub asks (Retry-After), or 0.1, 0.4 and 1.6 seconds.
class Patience {
 public:
  // `subject`: what the sentences are about, "OWNER/NAME".
  Patience(std::string subject, const HubSettings& settings, bool quiet);

  // Waits after a failure. Throws a Failure if no try is left or a refusal is final.
  void wait(const WebAnswer& answer);
  // There was progress since.
  void reset() { failures_ = 0; }

 private:
  std::string describe(const WebAnswer& answer) const;

  std::string subject_, hub_;
  bool has_token_, quiet_;
  bool was_connected_ = false;
  int32_t failures_ = 0;
};

// One request, which fixes the commit for all that follow.
HubListing fetch_listing(Web* web, const std::string& repository, Patience* patience);

}  // namespace ocellus::app
