// In builds without libcurl: what other tools put into the cache is read, nothing is fetched.
#include "apps/base/failure.h"
#include "apps/hub/hub_pair.h"

namespace ocellus::app {

HubPair pull_pair(const HubName& name, const HubOptions&) {
  throw Failure(kExitRuntime, name.text() +
                                  ": this build has no libcurl and fetches nothing; what the hub's own tools "
                                  "put into its cache is found by -hf.");
}

}  // namespace ocellus::app
