// The end of a turn whose parts were added one by one: its answer, piece by piece.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/setup/options.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// Receives the answer piece by piece.
using TextSink = std::function<void(const std::string& piece)>;

struct TurnAnswer {
  ocellus_status status = OCELLUS_OK;  // or OCELLUS_CANCELLED, OCELLUS_DEADLINE: the text is then incomplete
  std::string text;
  std::string thought;  // empty: none
  ocellus_generate_stats stats = {};
};

// Returns success, cancelling and deadlines; throws the rest as failures.
ocellus_status check_turn(Status status);

// Ends the turn and answers.
TurnAnswer end_turn(Session* session, const CommonOptions& options, const TextSink& sink);

// Ends the turns of several sessions of one engine, which are answered together.
std::vector<TurnAnswer> end_turns(const std::vector<Session*>& sessions, const CommonOptions& options);

}  // namespace ocellus::app
