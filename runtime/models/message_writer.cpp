#include "runtime/models/message_writer.h"

#include <cstdio>

#include "runtime/vocabulary/white_space.h"

namespace ocellus {
namespace {

bool trims(const PromptLayout& layout, Role role) { return (layout.trims >> static_cast<int>(role) & 1) != 0; }

}  // namespace

const MessageText& MessageWriter::text_of(Role role) const {
  if (role != Role::kSystem) return role == Role::kUser ? layout_.user : layout_.answer;
  return state_.is_first || layout_.later_system.before[0] == '\0' ? layout_.system : layout_.later_system;
}

Status MessageWriter::check(Role role) const {
  if (role == Role::kSystem && state_.any && layout_.refuses_later_system)
    return OCELLUS_FAIL(Code::kBadArgument,
                        "this model's chat template has no place for a system message after others");
  if (!layout_.alternates || role == Role::kSystem) return {};
  const bool follows_user = state_.any && state_.role == Role::kUser;
  if ((role == Role::kAnswer) == follows_user) return {};
  return OCELLUS_FAIL(Code::kBadArgument,
                      "this model's chat template has users' and assistants' messages in turns, the user's first");
}

Status MessageWriter::begin(Role role, std::string_view usual_system) {
  OCELLUS_TRY(check(role));
  const bool is_first = !state_.any, is_told = is_first && state_.thinks && layout_.opens_thinking[0] != '\0';
  if (is_first && role != Role::kSystem && (is_told || !usual_system.empty() || layout_.begins_with_system)) {
    OCELLUS_TRY(begin(Role::kSystem));
    OCELLUS_TRY(add_text(usual_system, false));
    OCELLUS_TRY(end());
    return begin(role);
  }
  if (state_.is_open) OCELLUS_TRY(end());
  state_.is_first = is_first;
  if (is_first) OCELLUS_TRY(write(layout_.start));
  const Role last = state_.role;
  const bool goes_on = !is_first && ((layout_.joins_system && last == Role::kSystem && role == Role::kUser) ||
                                     (layout_.joins_answers && last == Role::kAnswer && role == Role::kAnswer));
  std::string_view before = goes_on ? "" : text_of(role).before;
  if (is_first && before == " ") before = "";  // a text begins with SentencePiece's own space
  OCELLUS_TRY(write(before));
  if (is_told) OCELLUS_TRY(write(layout_.opens_thinking));
  sink_.end_head();
  if (layout_.is_plain) OCELLUS_TRY(sink_.add_seam());
  state_.role = role;
  state_.any = state_.is_open = true;
  state_.needs_lead = text_of(role).lead[0] != '\0';
  state_.needs_end = false;
  return {};
}

Status MessageWriter::end() {
  if (state_.needs_lead && !layout_.is_plain) OCELLUS_TRY(write_lead());
  OCELLUS_TRY(write_end());
  OCELLUS_TRY(write(text_of(state_.role).after));
  sink_.end_head();
  state_.is_open = state_.needs_lead = false;
  return layout_.is_plain ? sink_.add_seam() : Status();
}

Status MessageWriter::open_answer() {
  OCELLUS_TRY(write(layout_.text_before_answer(state_.thinks)));
  sink_.end_head();
  state_.open_answer();
  return layout_.is_plain ? sink_.add_seam() : Status();
}

Status MessageWriter::write_lead() {
  if (!state_.needs_lead) return {};
  state_.needs_lead = false;
  return write(text_of(state_.role).lead);
}

Status MessageWriter::write_end() {
  if (!state_.needs_end) return {};
  state_.needs_end = false;
  return write(layout_.after_text);
}

Status MessageWriter::add_text(std::string_view text, bool parse_special) {
  if (!state_.is_open) {
    OCELLUS_TRY(sink_.write(text, parse_special));
    sink_.end_head();
    return layout_.is_plain ? sink_.add_seam() : Status();
  }
  if (layout_.is_plain && text.empty()) return {};
  OCELLUS_TRY(write_lead());
  OCELLUS_TRY(write_end());
  OCELLUS_TRY(sink_.write(trims(layout_, state_.role) ? trim_white_space(text) : text, parse_special));
  state_.needs_end = true;
  if (!layout_.pictures_first) sink_.end_head();
  return layout_.is_plain ? sink_.add_seam() : Status();
}

Status MessageWriter::begin_picture(bool is_clip, bool is_numbered) {
  if (!state_.is_open) return {};
  if (is_clip) OCELLUS_TRY(write_lead());
  state_.needs_lead = false;
  const int32_t number = ++(is_clip ? state_.clips : state_.pictures);
  char label[32] = "";
  if (is_numbered) std::snprintf(label, sizeof label, is_clip ? layout_.clip_number : layout_.picture_number, number);
  OCELLUS_TRY(sink_.write_head(label));
  return sink_.write_head(layout_.picture.before);
}

Status MessageWriter::end_picture(bool is_numbered) {
  if (!state_.is_open) return {};
  OCELLUS_TRY(sink_.write_head(layout_.picture.after));
  return is_numbered ? sink_.write_head(layout_.after_numbered) : Status();
}

}  // namespace ocellus
