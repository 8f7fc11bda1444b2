// /v1/files
#include "apps/serve/chat_job.h"
#include "apps/serve/endpoint.h"

namespace ocellus::app {

void read_file_upload(const ServeContext& context, const HttpRequest& head, ChatJob* job) {
  context.files.require_library();
  FieldNames unknown;
  const FileUpload upload = parse_file_upload(job->body.bytes, head.header("content-type"), &unknown);
  context.unknown.take(unknown);
  job->work = [&files = context.files, upload, user = job->user](Session* session) {
    return std::optional<ReadyAnswer>(files.keep(session, user, upload));
  };
}

void read_file_question(const ServeContext& context, const HttpRequest& head, ChatJob* job) {
  context.files.require_library();
  const bool is_list = head.path == kFilesPath;
  FieldNames unknown;
  for (const auto& [name, value] : head.query) {
    if (is_list && name == "before") throw unsupported_field(name, "after, with order");
    const bool is_read = is_list && (name == "limit" || name == "order" || name == "after" || name == "purpose");
    if (!is_read && name != "token") note_unknown(name, &unknown);
  }
  context.unknown.take(unknown);
  job->answer = ReadyAnswer(context.files.answer(head, job->user));
}

}  // namespace ocellus::app
