// The ROS 2 node, compiled as it stands against rclcpp's signatures (tests/ros2/rclcpp), and taken through its life.
#include <doctest/doctest.h>

#include <thread>

#define main ros_node_main
#include "apps/examples/ros2/src/ocellus_node.cpp"
#undef main

#include "tests/support/goldens.h"

namespace ocellus {
namespace {

using CallbackReturn = OcellusNode::CallbackReturn;
using rclcpp_lifecycle::LifecyclePublisher;
using rclcpp_lifecycle::State;

const std::string kBoard = "images/115.png";

Header header_of(int32_t second) { return {{second, 250}, "camera"}; }

std::shared_ptr<CompressedImage> compressed(int32_t second) {
  auto image = std::make_shared<CompressedImage>();
  image->header = header_of(second);
  image->format = "png";
  image->data = test::read_bytes(test::kShapeboardDir + kBoard);
  return image;
}

/// A grey frame of 64 x 48 with padded rows.
std::shared_ptr<Image> raw(int32_t second, const std::string& encoding, uint32_t pixel_bytes) {
  auto image = std::make_shared<Image>();
  image->header = header_of(second);
  image->width = 64;
  image->height = 48;
  image->encoding = encoding;
  image->step = 64 * pixel_bytes + 5;
  image->data.assign(size_t{image->step} * image->height, 120);
  return image;
}

struct LiveNode {
  OcellusNode node;
  State state;

  explicit LiveNode(const char* transport) {
    const test::ModelPair pair = test::bundled_pair();
    node.parameters["model"] = rclcpp::Parameter(pair.model);
    node.parameters["mmproj"] = rclcpp::Parameter(pair.mmproj);
    node.parameters["image_transport"] = rclcpp::Parameter(std::string(transport));
    node.parameters["deadline_ms"] = rclcpp::Parameter(int64_t{60'000});
    REQUIRE(node.on_configure(state) == CallbackReturn::SUCCESS);
  }
  template <class Message>
  void show(const std::string& topic, std::shared_ptr<Message> image) {
    const auto subscription = node.find<rclcpp::Subscription<Message>>(topic);
    REQUIRE(subscription != nullptr);
    subscription->callback(image);
  }
  const std::vector<Caption>& captions() { return node.find<LifecyclePublisher<Caption>>("~/caption")->published; }
  Ask::Response ask(const std::string& question) {
    auto request = std::make_shared<Ask::Request>();
    auto response = std::make_shared<Ask::Response>();
    request->question = question;
    node.find<rclcpp::Service<Ask>>("~/ask")->callback(request, response);
    return *response;
  }
};

TEST_CASE("compressed frames are described and asked about, with their headers, also first after an activation") {
  LiveNode live("compressed");
  std::string first;
  for (int32_t round = 1; round <= 3; ++round) {
    CAPTURE(round);
    REQUIRE(live.node.on_activate(live.state) == CallbackReturn::SUCCESS);
    CHECK(live.node.find<rclcpp::Subscription<Image>>("image") == nullptr);
    live.show("image/compressed", compressed(round));
    REQUIRE(live.captions().size() == static_cast<size_t>(round));
    const Caption& caption = live.captions().back();
    CHECK(caption.header.stamp.sec == round);
    CHECK(caption.header.frame_id == "camera");
    CHECK(caption.text.size() > 20);
    if (round == 1) first = caption.text;
    CHECK(caption.text == first);
    const Ask::Response answer = live.ask("What is on the left?");
    CHECK(answer.success);
    CHECK(answer.answer.find("cyan star") != std::string::npos);
    CHECK(answer.header.stamp.sec == round);
    REQUIRE(live.node.on_deactivate(live.state) == CallbackReturn::SUCCESS);
    CHECK(live.node.find<rclcpp::Subscription<CompressedImage>>("image/compressed") == nullptr);
  }
  CHECK(live.node.on_cleanup(live.state) == CallbackReturn::SUCCESS);
}

TEST_CASE("raw frames of every encoding are described, others are refused and nothing is published") {
  LiveNode live("raw");
  REQUIRE(live.node.on_activate(live.state) == CallbackReturn::SUCCESS);
  CHECK(!live.ask("What is on the left?").success);
  size_t described = 0;
  for (const auto& [encoding, bytes] : {std::pair{"rgb8", 3u},
                                        {"bgr8", 3u},
                                        {"rgba8", 4u},
                                        {"bgra8", 4u},
                                        {"mono8", 1u},
                                        {"yuv422_yuy2", 2u},
                                        {"16UC1", 2u},
                                        {"mono16", 2u}}) {
    CAPTURE(encoding);
    live.show("image", raw(static_cast<int32_t>(described), encoding, bytes));
    REQUIRE(live.captions().size() == ++described);
  }
  live.show("image", raw(9, "bayer_rggb8", 1));
  const std::shared_ptr<Image> cut = raw(9, "rgb8", 3);
  cut->data.resize(100);
  live.show("image", cut);
  CHECK(live.captions().size() == described);
  CHECK(live.node.on_deactivate(live.state) == CallbackReturn::SUCCESS);
}

TEST_CASE(
    "a deactivation ends the answer under way, whenever it comes, and the next activation answers its first frame") {
  LiveNode live("compressed");
  size_t described = 0;
  for (int32_t round = 0; round < 20; ++round) {
    CAPTURE(round);
    REQUIRE(live.node.on_activate(live.state) == CallbackReturn::SUCCESS);
    const auto subscription = live.node.find<rclcpp::Subscription<CompressedImage>>("image/compressed");
    const auto image = compressed(round);
    std::thread worker([&] { subscription->callback(image); });
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * round));
    CHECK(live.node.on_deactivate(live.state) == CallbackReturn::SUCCESS);
    worker.join();
    described = live.captions().size();
    REQUIRE(live.node.on_activate(live.state) == CallbackReturn::SUCCESS);
    live.show("image/compressed", image);
    CHECK(live.captions().size() == described + 1);
    CHECK(live.node.on_deactivate(live.state) == CallbackReturn::SUCCESS);
  }
}

}  // namespace
}  // namespace ocellus
