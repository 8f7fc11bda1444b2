// Prefix caching: images are found in a library after the prompt that they were read in, and nowhere else.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtime/session/session.h"
#include "tests/support/goldens.h"
#include "tests/support/shelf.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_golden;
using test::answer_of;
using test::check_hits;
using test::default_params;
using test::FreeBlocks;
using test::make_engine;
using test::open_session;
using test::open_with;
using test::Shelf;

ocellus_limits prefix_limits(int32_t images, int32_t bits = 16) {
  return test::shelf_limits(images, 0, bits, OCELLUS_REUSE_PREFIX);
}

std::vector<float> golden_logits(Session& session, int id) {
  session.reset();
  test::add_question(session, test::golden(id));
  return test::first_logits(session);
}

Answer ask(Session& session, const std::string& prompt, const std::vector<std::string>& images) {
  REQUIRE_MESSAGE(test::add_turn(session, prompt, images).ok(), last_failure().sentence);
  return answer_of(session, default_params(4));
}

}  // namespace

TEST_CASE("images that are found behind their prefix give the bits of computing them") {
  // In the second prompt more rows wait before a picture than are read again with it.
  const std::string few = "<image>One. <image>Two. <image>Which are alike?";
  const std::string many = [&few] {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "Look at this. ";
    return text + few;
  }();
  const std::vector<std::string> images = {"images/113.png", "images/115.png", "images/113.png"};
  for (const int bits : {16, 4, 1}) {
    CAPTURE(bits);
    Shelf shelf;
    ocellus_limits limits = prefix_limits(3, bits);
    limits.max_text_tokens = 400;
    std::vector<Answer> computed;
    for (int run = 0; run < 2; ++run) {
      const std::unique_ptr<Engine> engine = make_engine(limits);
      Session& session = open_with(*engine, shelf, "robot");
      const bool found = run > 0;
      for (size_t i = 0; i < 2; ++i) {
        session.reset();
        const Answer answer = ask(session, i == 0 ? few : many, images);
        check_hits(answer, found ? 3 : 0, found ? 0 : 3);
        if (found)
          test::check_equal(answer, computed[i]);
        else
          computed.push_back(answer);
      }
      library_traffic(*engine).finish_writes();
    }
    // The first picture is found, and those after it are computed.
    const std::unique_ptr<Engine> engine = make_engine(limits);
    Session& session = open_with(*engine, shelf, "another");
    check_hits(ask(session, "<image>One.", {images[0]}), 0, 1);
    library_traffic(*engine).finish_writes();
    session.reset();
    const Answer mixed = ask(session, few, images);
    check_hits(mixed, 1, 2);
    test::check_equal(mixed, computed[0]);
  }
}

TEST_CASE("an image that waiting text comes before is stored with the mean of its own rows") {
  // The waiting rows and the image's are more than one image's: the mean's memory has room for those of an image.
  const std::string many =
      "Look at this with care, and think of all that was said before the board was shown. <image>So?";
  const std::vector<uint8_t> bytes = test::board_bytes("images/115.png");
  for (const int bits : {16, 1}) {
    CAPTURE(bits);
    Shelf shelf;
    const std::unique_ptr<Engine> engine = make_engine(prefix_limits(1, bits));
    Session& session = open_with(*engine, shelf, "robot");
    check_hits(ask(session, many, {"images/115.png"}), 0, 1);
    library_traffic(*engine).finish_writes();
    session.reset();
    Buffer<NearEntry> near;
    REQUIRE_MESSAGE(search_library(session, bytes.data(), std::ssize(bytes), 1, &near).ok(), last_failure().sentence);
    REQUIRE(near.size() == 1);
    CHECK(near[0].similarity > 0.99999f);
  }
}

TEST_CASE("images that are read in context give nearly what reading the prompt at once gives" *
          doctest::test_suite("long")) {
  for (const int bits : {16, 4, 1}) {
    CAPTURE(bits);
    Shelf shelf;
    const std::unique_ptr<Engine> engine = make_engine(prefix_limits(4, bits));
    Session& session = open_with(*engine, shelf, "robot");
    const std::vector<float> found = golden_logits(session, 13);
    REQUIRE(set_library(session, nullptr, "").ok());
    const std::vector<float> computed = golden_logits(session, 13);
    // Slots are read in another order, after which inputs may round to another one of their 8-bit steps; calibration
    // carries that on to the scores of packed ones.
    CHECK(test::relative_error(found.data(), {computed.begin(), computed.end()}) < (bits < 16 ? 1e-2 : 5e-3));
    if (bits < 16) continue;
    ocellus_limits limits = test::board_limits(4, 200);
    limits.max_encode_views = 1;
    const std::unique_ptr<Engine> plain = make_engine(limits);
    const std::vector<float> expected = golden_logits(open_session(*plain), 13);
    CHECK(test::relative_error(found.data(), {expected.begin(), expected.end()}) < 5e-3);
  }
}

TEST_CASE("an image is found behind the same prompt in the same pieces alone") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(prefix_limits(1));
  Session& session = open_with(*engine, shelf, "robot");
  const auto read = [&](bool in_two_pieces, int32_t hits) {
    session.reset();
    REQUIRE(session.add_text("Look ", false).ok());
    if (in_two_pieces) REQUIRE(session.mark().ok());
    REQUIRE(session.add_text("at this.", false).ok());
    REQUIRE(test::add_board(session, "images/113.png").ok());
    check_hits(answer_of(session, default_params(4)), hits, 1 - hits);
    library_traffic(*engine).finish_writes();
  };
  read(false, 0);
  read(true, 0);
  read(false, 1);
  read(true, 1);
}

TEST_CASE("an image is found behind the same text and the same images alone") {
  const std::string a = "images/113.png", b = "images/115.png";
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(prefix_limits(3));
  Session& session = open_with(*engine, shelf, "robot");
  const auto check = [&](const char* prompt, const std::vector<std::string>& images, int32_t hits, int32_t misses) {
    CAPTURE(prompt);
    session.reset();
    check_hits(ask(session, prompt, images), hits, misses);
    library_traffic(*engine).finish_writes();
  };
  check("<image>One. <image>Two. <image>Which are alike?", {a, b, a}, 0, 3);
  check("<image>One. <image>Two. <image>Which are alike?", {a, b, a}, 3, 0);
  check("<image>One. <image>Two. <image>Is there a ring?", {a, b, b}, 2, 1);  // another image after the same prompt
  check("<image>One. <image>To. <image>Which are alike?", {a, b, a}, 2, 1);   // another word before the last
  check("<image>One. <image>Two. <image>Which are alike?", {b, b, a}, 0, 3);  // another image before all others
  check("So: <image>One. <image>Two. <image>Which?", {a, b, a}, 0, 3);
  // The model's answer is part of the prefix.
  session.reset();
  check_hits(ask(session, "<image>What is on the left?", {a}), 1, 0);
  const Answer second = ask(session, "<image>And here?", {b});
  check_hits(second, 0, 1);
  library_traffic(*engine).finish_writes();
  session.reset();
  check_hits(ask(session, "<image>What is on the left?", {a}), 1, 0);
  const Answer again = ask(session, "<image>And here?", {b});
  check_hits(again, 1, 0);
  CHECK(again.text == second.text);
}

TEST_CASE("a prompt whose images are read in context and that fails leaves the conversation as it was") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(prefix_limits(3));
  Session& session = open_with(*engine, shelf, "robot");
  const std::string expected = ask(session, "<image>What is on the left?", {"images/115.png"}).text;
  const std::string next = ask(session, "<image>And here?", {"images/113.png"}).text;
  session.reset();
  CHECK(ask(session, "<image>What is on the left?", {"images/115.png"}).text == expected);
  const FreeBlocks before(*engine);
  for (int round = 0; round < 2; ++round) {
    REQUIRE(test::add_turn(session, "<image>So <image>here?", {"images/113.png", "images/115.png"}).ok());
    session.stop_signal().cancel();
    CHECK(session.acknowledge_cancel(answer_of(session, default_params(4)).status).code() == Code::kCancelled);
    CHECK(FreeBlocks(*engine) == before);
  }
  std::vector<uint8_t> damaged = test::board_bytes("images/113.png");
  damaged.resize(damaged.size() / 2);
  REQUIRE(session.begin_turn().ok());
  CHECK(session.add_encoded_image(damaged.data(), std::ssize(damaged)).code() == Code::kBadImage);
  session.reset();
  ask(session, "<image>What is on the left?", {"images/115.png"});
  CHECK(ask(session, "<image>And here?", {"images/113.png"}).text == next);
}

TEST_CASE("with prefix caching no image comes by its key") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(prefix_limits(1));
  Session& session = open_with(*engine, shelf, "ann");
  answer_golden(session, 1, 2);
  const LibraryKey key = library_of(session)->outcome().last_key;
  session.reset();
  CHECK(session.prompt().add_named_picture(key_text(key).text).code() == Code::kUnsupported);
}

}  // namespace ocellus
