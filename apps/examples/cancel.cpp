// Another thread stops an answer. usage: cancel MODEL.gguf MMPROJ.gguf [MILLISECONDS]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ocellus.hpp>
#include <thread>

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: cancel MODEL.gguf MMPROJ.gguf [MILLISECONDS]\n"), 2;
  const std::chrono::milliseconds delay(argc > 3 ? std::atoi(argv[3]) : 50);

  auto model = ocellus::Model::open(argv[1], argv[2]);
  auto config = ocellus::engine_config();
  config.limits.max_text_tokens = 1024;
  auto engine = model ? ocellus::Engine::create(*model, config) : model.status().code();
  auto session = engine ? ocellus::Session::open(*engine) : engine.status().code();
  if (!session) return std::fprintf(stderr, "%s\n", ocellus::Status::sentence()), 1;

  auto params = ocellus::generate_params();
  params.max_tokens = 900;
  params.ignore_end = 1;  // long enough to be cancelled
  ocellus::Status status = session->begin_turn();
  if (status) status = session->add_text("Describe this image.");
  if (status) status = session->end_turn();
  if (!status) return std::fprintf(stderr, "%s\n", status.sentence()), 1;

  std::thread other([&] {
    std::this_thread::sleep_for(delay);
    session->cancel();
  });
  ocellus_generate_stats stats{};
  status = session->generate(params, nullptr, &stats);
  other.join();
  std::printf("%s after %d tokens\n", status.name(), static_cast<int>(stats.generated_tokens));
  return status.code() == OCELLUS_CANCELLED || status ? 0 : 1;
}
