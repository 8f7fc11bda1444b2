// The endpoints of `ocellus serve`.
#pragma once

#include <string>
#include <vector>

#include "apps/http/http_server.h"
#include "apps/serve/chat_scheduler.h"

namespace ocellus::app {

// Adds POST /v1/chat/completions, /v1/files, GET /v1/models, /v1/models/NAME, /healthz and /health (open to all) and
// /metrics, before the server starts; the scheduler and the metrics must outlive it.
void add_chat_endpoints(HttpServer* server, ChatScheduler* scheduler, const ServeMetrics* metrics,
                        const std::vector<std::string>& names);

}  // namespace ocellus::app
