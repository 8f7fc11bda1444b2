// POST /v1/responses: messages, calls and results as items; nothing is kept after the answer.
#include "apps/serve/chat_job.h"
#include "apps/serve/endpoint.h"
#include "apps/serve/responses_request.h"

namespace ocellus::app {

void read_response(const ServeContext& context, const HttpRequest& /*head*/, ChatJob* job) {
  job->request = parse_responses_request(&job->body.bytes, context.options.params, prompt_form(context.options));
  begin_chat(context, ReplyForm::kResponse, job);
}

void read_kept_response(const ServeContext& /*context*/, const HttpRequest& /*head*/, ChatJob* /*job*/) {
  throw RequestError(404, "Responses are not kept: send the items of earlier turns in input.", "", "not_found");
}

}  // namespace ocellus::app
