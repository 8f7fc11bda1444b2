#include "apps/setup/method_list.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <sstream>
#include <vector>

#include "apps/base/failure.h"
#include "apps/base/limit_flags.h"
#include "apps/base/number_validator.h"
#include "apps/base/sizes.h"
#include "apps/base/value_flags.h"
#include "apps/setup/method_page.h"

namespace ocellus::app {
namespace {

std::vector<const ocellus_method*> methods_of(ocellus_method_kind kind) {
  std::vector<const ocellus_method*> methods;
  while (const ocellus_method* method = get_method(kind, static_cast<int32_t>(methods.size())))
    methods.push_back(method);
  return methods;
}

std::vector<ocellus_method_option> options_of(const ocellus_method& method) {
  return {method.options, method.options + method.option_count};
}

bool takes_numbers(const ocellus_method_option& option) { return option.least <= option.most; }

// "auto or 1 to 65536"
std::string range_text(const ocellus_method_option& option) {
  std::string text = option.words == nullptr ? "" : option.words;
  if (!takes_numbers(option)) return text;
  text += (text.empty() ? "" : " or ") + plain_number(option.least) + " to " + plain_number(option.most);
  return text + (option.step == 2 ? ", odd" : "");
}

nlohmann::ordered_json value_json(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return text;
  const auto whole = static_cast<int64_t>(number);
  if (static_cast<double>(whole) == number) return whole;
  return number;
}

std::string method_paragraph(const ocellus_method& method) {
  size_t width = 0;
  const auto assignment = [](const ocellus_method_option& option) {
    return std::string(option.key) + "=" + option.standard;
  };
  for (const ocellus_method_option& option : options_of(method)) width = std::max(width, assignment(option).size());
  std::string text = "\n" + std::string(method.name) + " (" + method.paper + ")\n  " + method.meaning + "\n";
  for (const ocellus_method_option& option : options_of(method)) {
    std::string cell = assignment(option);
    cell.resize(width, ' ');
    text += "    " + cell + "  " + option.meaning + " [" + range_text(option) + "]\n";
  }
  return text;
}

nlohmann::ordered_json object_of(const ocellus_method& method) {
  nlohmann::ordered_json options = nlohmann::ordered_json::array();
  for (const ocellus_method_option& option : options_of(method))
    options.push_back({{"key", option.key},
                       {"values", range_text(option)},
                       {"default", value_json(option.standard)},
                       {"meaning", option.meaning}});
  return {{"name", method.name},
          {"paper", method.paper},
          {"meaning", method.meaning},
          {"recommended", method.recommended != 0},
          {"options", options}};
}

nlohmann::ordered_json list_json(ocellus_method_kind kind) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ocellus_method* method : methods_of(kind)) list.push_back(object_of(*method));
  return list;
}

const ocellus_method& find_method(const std::string& name) {
  std::string names;
  for (const ocellus_method_kind kind : {OCELLUS_METHOD_EVICT, OCELLUS_METHOD_KV_SCHEME, OCELLUS_METHOD_REDUCE})
    for (const ocellus_method* method : methods_of(kind)) {
      if (name == method->name) return *method;
      names += (names.empty() ? "" : ", ") + std::string(method->name);
    }
  throw Failure(kExitUsage, "there is no cache method '" + name + "'; there are " + names + ".");
}

std::string pairs_text() {
  std::string text = "\nWhat one engine cannot have together, and why.\n";
  for (int32_t i = 0; const ocellus_feature_pair* pair = get_feature_pair(i); ++i)
    text += "\n" + name_flags(std::string(pair->one) + " with " + pair->other) + "\n  It " + name_flags(pair->reason) +
            ".\n";
  return text;
}

nlohmann::ordered_json pairs_json() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (int32_t i = 0; const ocellus_feature_pair* pair = get_feature_pair(i); ++i)
    list.push_back(
        {{"one", name_flags(pair->one)}, {"other", name_flags(pair->other)}, {"reason", name_flags(pair->reason)}});
  return list;
}

}  // namespace

std::string method_name(const std::string& text) { return text.substr(0, text.find(':')); }

std::string join_method_names(ocellus_method_kind kind, MethodNames which) {
  std::string text;
  for (const ocellus_method* method : methods_of(kind))
    if (which == MethodNames::kAll || method->recommended != 0)
      text += (text.empty() ? "" : "|") + std::string(method->name);
  return text;
}

void add_method_flag(CLI::App* command, const char* flag, ocellus_method_kind kind, std::string* method,
                     const char* help) {
  const bool is_scheme = kind == OCELLUS_METHOD_KV_SCHEME;
  const MethodNames shown = is_scheme || command->get_name() == "eval" ? MethodNames::kAll : MethodNames::kRecommended;
  const auto refuse = [kind](std::string& text) {
    return check_method(kind, text.c_str()) ? std::string() : std::string(Status::sentence());
  };
  add_value(command, "Cache", flag, (is_scheme ? "" : "none|") + join_method_names(kind, shown) + "[:KEY=VALUE,...]",
            method, help)
      ->check(CLI::Validator(refuse, "METHOD"));
}

void add_share_flag(CLI::App* command, const char* flag, float* share, const char* help) {
  add_value(command, "Cache", flag, "FRACTION", share, help)->check(number_between(0, 1));
}

void set_method(const std::string& flag, const std::string& text, char (&field)[OCELLUS_METHOD_TEXT]) {
  if (text.size() >= sizeof field)
    throw Failure(kExitUsage, flag + ": with the options that other flags add, this has more than " +
                                  std::to_string(sizeof field - 1) + " characters.");
  std::copy(text.begin(), text.end(), field);
  field[text.size()] = '\0';
}

std::string plain_number(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

nlohmann::ordered_json method_options_json(ocellus_method_kind kind, const std::string& text) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  const std::string name = method_name(text);
  for (const ocellus_method* method : methods_of(kind))
    if (name == method->name)
      for (const ocellus_method_option& option : options_of(*method)) object[option.key] = value_json(option.standard);
  std::istringstream given(text.size() > name.size() ? text.substr(name.size() + 1) : "");
  for (std::string pair; std::getline(given, pair, ',');) {
    const size_t equals = pair.find('=');
    if (equals != std::string::npos) object[pair.substr(0, equals)] = value_json(pair.substr(equals + 1));
  }
  return object;
}

std::string methods_text() {
  std::string text =
      "Eviction methods, for --evict NAME or --evict NAME:key=value,key=value, with --keep. Each keeps the recent "
      "window and,\nof the rest, the tokens with the best scores, per layer and key/value head unless stated "
      "otherwise.\n";
  for (const ocellus_method* method : methods_of(OCELLUS_METHOD_EVICT)) text += method_paragraph(*method);
  text += "\nPacking schemes, for --kv-scheme NAME or --kv-scheme NAME:key=value,key=value, with --kv-bits.\n";
  for (const ocellus_method* method : methods_of(OCELLUS_METHOD_KV_SCHEME)) text += method_paragraph(*method);
  text +=
      "\nReductions of pictures, for --reduce NAME, with --reduce-keep: which rows are read, chosen between the vision "
      "part and\nthe language model unless stated otherwise.\n";
  for (const ocellus_method* method : methods_of(OCELLUS_METHOD_REDUCE)) text += method_paragraph(*method);
  return text + pairs_text();
}

std::string method_page(const std::string& name) { return method_paragraph(find_method(name)).substr(1); }

nlohmann::ordered_json method_page_json(const std::string& name) { return object_of(find_method(name)); }

nlohmann::ordered_json methods_json() {
  return {{"command", "methods"},
          {"evict", list_json(OCELLUS_METHOD_EVICT)},
          {"kv_scheme", list_json(OCELLUS_METHOD_KV_SCHEME)},
          {"reduce", list_json(OCELLUS_METHOD_REDUCE)},
          {"pairs", pairs_json()}};
}

}  // namespace ocellus::app
