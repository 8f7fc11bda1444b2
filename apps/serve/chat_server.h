// The endpoints of `ocellus serve`.
#pragma once

#include <string>
#include <vector>

#include "apps/http/http_server.h"
#include "apps/serve/chat_scheduler.h"

namespace ocellus::app {

// Adds all endpoints before the server starts; the scheduler and the metrics must outlive it. /healthz and /health are
// open to all.
void add_chat_endpoints(HttpServer* server, ChatScheduler* scheduler, const ServeMetrics* metrics,
                        const ServedNames& names);

}  // namespace ocellus::app
