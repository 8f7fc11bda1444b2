// /v1/files
#include "apps/serve/chat_job.h"
#include "apps/serve/endpoint.h"

namespace ocellus::app {

void read_file_upload(const ServeContext& context, const HttpRequest& head, ChatJob* job) {
  context.files.require_library();
  const FileUpload upload = parse_file_upload(job->body.bytes, head.header("content-type"));
  job->work = [&files = context.files, upload, user = job->user](ocellus_session* session) {
    return std::optional(files.keep(session, user, upload));
  };
}

void read_file_question(const ServeContext& context, const HttpRequest& head, ChatJob* job) {
  context.files.require_library();
  job->answer = context.files.answer(head, job->user);
}

}  // namespace ocellus::app
