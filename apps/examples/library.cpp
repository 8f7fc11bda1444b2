// A picture that was seen before comes from a library on disk, also in the next run of this program.
// usage: library MODEL.gguf MMPROJ.gguf DIRECTORY PICTURE
#include <cstdio>
#include <fstream>
#include <iterator>
#include <ocellus.hpp>
#include <vector>

static ocellus::Status describe(ocellus::Session& session, const std::vector<char>& picture) {
  ocellus::Status status = session.forget_all();
  if (status) status = session.begin_turn();
  if (status) status = session.add_encoded_image(picture);
  if (status) status = session.add_text("Describe this image.");
  if (status) status = session.end_turn();
  ocellus_generate_stats stats{};
  const auto print = [](std::string_view text) {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  };
  if (status) status = session.generate(print, &stats);
  if (status) {
    std::printf("\n%s: first token after %.1f ms\n", stats.library_hits > 0 ? "from the library" : "computed",
                stats.first_token_ms);
  }
  return status;
}

int main(int argc, char** argv) {
  if (argc != 5) return std::fprintf(stderr, "usage: library MODEL.gguf MMPROJ.gguf DIRECTORY PICTURE\n"), 2;
  std::ifstream file(argv[4], std::ios::binary);
  const std::vector<char> picture{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};

  auto model = ocellus::Model::open(argv[1], argv[2]);
  auto library = ocellus::Library::open(argv[3], 100'000'000);
  auto config = ocellus::engine_config();
  config.limits.reuse = OCELLUS_REUSE_SPREAD;
  config.limits.reuse_rows = 16;  // tokens of a picture that are computed in place
  config.limits.library = 1;
  auto engine = model && library ? ocellus::Engine::create(*model, config) : OCELLUS_BAD_FILE;
  auto session = engine ? ocellus::Session::open(*engine) : engine.status().code();
  if (!session) return std::fprintf(stderr, "%s\n", ocellus::Status::sentence()), 1;

  ocellus::Status status = session->set_library(*library, "robot-1");
  if (status) status = describe(*session, picture);
  if (status) status = session->get_library_image().status();  // waits until it is stored
  if (status) status = describe(*session, picture);
  if (!status) return std::fprintf(stderr, "%s\n", status.sentence()), 1;
  return 0;
}
