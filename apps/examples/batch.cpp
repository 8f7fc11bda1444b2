// Several cameras, one engine: each has its session, and their answers are decoded together.
// usage: batch MODEL.gguf MMPROJ.gguf PICTURE...
#include <cstdio>
#include <fstream>
#include <iterator>
#include <ocellus.hpp>
#include <string>
#include <vector>

static std::vector<char> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: batch MODEL.gguf MMPROJ.gguf PICTURE...\n"), 2;
  const auto count = static_cast<size_t>(argc - 3);
  auto model = ocellus::Model::open(argv[1], argv[2]);
  auto config = ocellus::engine_config();
  config.limits.max_sessions = argc - 3;
  auto engine = model ? ocellus::Engine::create(*model, config) : model.status().code();
  if (!engine) return std::fprintf(stderr, "%s\n", ocellus::Status::sentence()), 1;

  std::vector<ocellus::Session> sessions;
  std::vector<ocellus_session*> together;
  for (size_t i = 0; i < count; ++i) {
    auto session = ocellus::Session::open(*engine);
    ocellus::Status status = session.status();
    if (status) status = session->begin_turn();
    if (status) status = session->add_encoded_image(read_file(argv[i + 3]));
    if (status) status = session->add_text("Describe this image.");
    if (status) status = session->end_turn();
    if (!status) return std::fprintf(stderr, "%s: %s\n", argv[i + 3], status.sentence()), 1;
    together.push_back(session->get());
    sessions.push_back(std::move(*session));
  }

  // A callback and a text for each camera. They stay where they are: parameters point to them.
  std::vector<ocellus_generate_params> params(count, ocellus::generate_params());
  std::vector<ocellus_generate_stats> stats(count);
  std::vector<std::string> answers(count);
  const auto collect = [](std::string& answer) {
    return [&answer](std::string_view text) { return answer.append(text).size() < 1000; };
  };
  std::vector<decltype(collect(answers[0]))> collectors;
  for (auto& answer : answers) collectors.push_back(collect(answer));
  std::vector<ocellus::OnText> callbacks(collectors.begin(), collectors.end());
  for (size_t i = 0; i < count; ++i) ocellus::set_on_text(params[i], callbacks[i]);
  const ocellus::Status status = ocellus::batch_generate(together, params, stats);
  if (!status) return std::fprintf(stderr, "%s\n", status.sentence()), 1;
  for (const auto& answer : answers) std::puts(answer.c_str());
  return 0;
}
