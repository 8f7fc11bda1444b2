// AskedRetrieval: finds in an answer the places where the model asks for a picture of the user's library, as in
// "<retrieve: red bus>", and takes them out of the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ocellus::app {

// The form in which the models of a family ask, and the text that they read after it.
struct RetrievalForm {
  std::string chat_template;  // ocellus_model_facts.chat_template; empty: any other
  std::string begin, end;     // around the words
  std::string after_picture;  // follows the picture
  std::string nothing_found;  // in place of it
};

// Returns the form of a family's models. `pattern`: "BEGIN...END" in place of the family's own; empty: none. Throws a
// Failure if it lacks one of the two.
RetrievalForm find_retrieval_form(std::string_view chat_template, const std::string& pattern);

class AskedRetrieval {
 public:
  // Finds at most `count` requests in an answer; further ones stay in the text.
  AskedRetrieval(RetrievalForm form, int32_t count) : form_(std::move(form)), left_(count) {}

  // Returns the text that is no request; a possible beginning of one is held back. Once a request is complete, the text
  // after it is held back until take_query().
  std::string push(std::string_view piece);
  bool has_query() const { return has_query_; }
  // Returns the words of the request.
  std::string take_query();
  // Returns the rest at the end of the answer: a request that was not completed is text.
  std::string finish();
  const RetrievalForm& form() const { return form_; }

 private:
  RetrievalForm form_;
  int32_t left_;
  std::string unmatched_;  // begins a request, possibly
  std::string query_;
  bool has_query_ = false;
};

}  // namespace ocellus::app
