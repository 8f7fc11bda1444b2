// Describes frames of sensor_msgs/Image `image` on std_msgs/String `~/caption`; the service `~/ask` answers a question
// about the newest. The newest frame only (KeepLast(1)); a transition to inactive cancels what is under way.
//   ros2 run ocellus_ros ocellus_node --ros-args -p model:=M.gguf -p mmproj:=P.gguf -r image:=/camera/image_raw
//   ros2 lifecycle set /ocellus configure; ros2 lifecycle set /ocellus activate
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <ocellus.hpp>
#include <ocellus_ros/srv/ask.hpp>
#include <rclcpp/rclcpp.hpp>
#include <rclcpp_lifecycle/lifecycle_node.hpp>
#include <sensor_msgs/msg/image.hpp>
#include <std_msgs/msg/string.hpp>
#include <string>
#include <vector>

using Ask = ocellus_ros::srv::Ask;
using Image = sensor_msgs::msg::Image;
using String = std_msgs::msg::String;

class OcellusNode : public rclcpp_lifecycle::LifecycleNode {
 public:
  using CallbackReturn = rclcpp_lifecycle::node_interfaces::LifecycleNodeInterface::CallbackReturn;

  OcellusNode() : LifecycleNode("ocellus") {
    declare_parameter<std::string>("model", "");
    declare_parameter<std::string>("mmproj", "");
    declare_parameter<std::string>("prompt", "Describe this image.");
    declare_parameter<int64_t>("budget", 0);  // bytes; 0: none
    declare_parameter<int64_t>("kv_bits", 4);
    declare_parameter<int64_t>("deadline_ms", 2000);
    declare_parameter<int64_t>("max_image_pixels", 1920 * 1080);
  }

  /// Takes all memory: after this nothing of Ocellus allocates.
  CallbackReturn on_configure(const rclcpp_lifecycle::State&) override {
    auto model =
        ocellus::Model::open(get_parameter("model").as_string().c_str(), get_parameter("mmproj").as_string().c_str());
    if (!model) return refuse();
    auto config = ocellus::engine_config();
    config.limits.budget_bytes = get_parameter("budget").as_int();
    config.limits.cache.kv_bits = static_cast<int32_t>(get_parameter("kv_bits").as_int());
    config.limits.max_image_pixels = get_parameter("max_image_pixels").as_int();
    auto engine = ocellus::Engine::create(*model, config);
    if (!engine) return refuse();
    auto session = ocellus::Session::open(*engine);
    if (!session) return refuse();
    model_ = std::move(*model);
    engine_ = std::move(*engine);
    session_ = std::move(*session);
    captions_ = create_publisher<String>("~/caption", rclcpp::QoS(rclcpp::KeepLast(1)));
    return CallbackReturn::SUCCESS;
  }

  /// Frames and questions come one after another, beside the transitions.
  CallbackReturn on_activate(const rclcpp_lifecycle::State& state) override {
    LifecycleNode::on_activate(state);
    active_ = true;
    if (!work_group_) work_group_ = create_callback_group(rclcpp::CallbackGroupType::MutuallyExclusive);
    rclcpp::SubscriptionOptions options;
    options.callback_group = work_group_;
    frames_ = create_subscription<Image>(
        "image", rclcpp::SensorDataQoS().keep_last(1), [this](Image::ConstSharedPtr image) { receive(image); },
        options);
    questions_ = create_service<Ask>(
        "~/ask",
        [this](const std::shared_ptr<Ask::Request> request, std::shared_ptr<Ask::Response> response) {
          answer(*request, *response);
        },
        rclcpp::ServicesQoS().get_rmw_qos_profile(), work_group_);
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_deactivate(const rclcpp_lifecycle::State& state) override {
    active_ = false;
    session_.cancel();  // the call in progress returns within the time of one layer
    const std::lock_guard<std::mutex> lock(work_);
    frames_.reset();
    questions_.reset();
    LifecycleNode::on_deactivate(state);
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_cleanup(const rclcpp_lifecycle::State&) override {
    newest_.reset();
    captions_.reset();
    session_ = {};
    engine_ = {};
    model_ = {};
    return CallbackReturn::SUCCESS;
  }

 private:
  CallbackReturn refuse() {
    RCLCPP_ERROR(get_logger(), "%s", ocellus::Status::sentence());
    return CallbackReturn::FAILURE;
  }

  void receive(const Image::ConstSharedPtr& image) {
    const std::lock_guard<std::mutex> lock(work_);
    if (!active_) return;
    newest_ = image;
    String caption;
    const ocellus::Status status = ask(get_parameter("prompt").as_string(), caption.data);
    const double age_ms = (now() - rclcpp::Time(image->header.stamp)).seconds() * 1e3;
    if (status.code() == OCELLUS_CANCELLED) return;
    if (!status) RCLCPP_WARN(get_logger(), "after %.0f ms: %s", age_ms, status.sentence());
    RCLCPP_DEBUG(get_logger(), "answered %.0f ms after the capture", age_ms);
    if (status && active_) captions_->publish(caption);
  }

  void answer(const Ask::Request& request, Ask::Response& response) {
    const std::lock_guard<std::mutex> lock(work_);
    const bool can = active_ && newest_ != nullptr;
    const ocellus::Status status = can ? ask(request.question, response.answer) : OCELLUS_CANCELLED;
    response.success = status.ok();
    if (!response.success) response.answer = can ? status.sentence() : "there is no frame yet";
  }

  /// About the newest frame.
  ocellus::Status ask(const std::string& prompt, std::string& text) {
    const ocellus_frame frame = view(*newest_);
    const std::chrono::milliseconds deadline(get_parameter("deadline_ms").as_int());
    session_.set_deadline(ocellus::Clock::now() + deadline);
    ocellus::Status status = session_.forget_all();
    if (status) status = session_.begin_turn();
    if (!active_) status = OCELLUS_CANCELLED;  // a cancellation before begin_turn was not meant for this turn
    if (status) status = session_.add_image(frame);
    if (status) status = session_.add_text(prompt);
    if (status) status = session_.end_turn();
    if (status) status = session_.generate([&](std::string_view piece) { return text.append(piece).size() < 4096; });
    return status;
  }

  /// The frame as Ocellus sees it, without a copy unless red and blue must change places. Ocellus refuses other
  /// encodings and frames that are too short.
  ocellus_frame view(const Image& image) {
    ocellus_frame frame{};
    frame.width = static_cast<int32_t>(image.width);
    frame.height = static_cast<int32_t>(image.height);
    frame.stride_bytes[0] = image.step;
    frame.format = -1;
    if (image.encoding == "rgb8" || image.encoding == "bgr8") frame.format = OCELLUS_RGB8;
    if (image.encoding == "rgba8") frame.format = OCELLUS_RGBA8;
    if (image.encoding == "mono8") frame.format = OCELLUS_GRAY8;
    if (image.encoding == "yuv422_yuy2" || image.encoding == "yuyv") frame.format = OCELLUS_YUYV;
    if (image.data.size() < static_cast<size_t>(image.step) * image.height) return frame;  // no plane
    frame.plane[0] = image.data.data();
    if (image.encoding == "bgr8" && image.step >= image.width * 3) {
      swapped_ = image.data;
      for (size_t y = 0; y < image.height; ++y)
        for (size_t x = 0; x < image.width; ++x)
          std::swap(swapped_[y * image.step + x * 3], swapped_[y * image.step + x * 3 + 2]);
      frame.plane[0] = swapped_.data();
    }
    return frame;
  }

  std::mutex work_;
  std::atomic<bool> active_{false};
  ocellus::Model model_;
  ocellus::Engine engine_;
  ocellus::Session session_;
  Image::ConstSharedPtr newest_;
  std::vector<uint8_t> swapped_;
  rclcpp::CallbackGroup::SharedPtr work_group_;
  rclcpp::Subscription<Image>::SharedPtr frames_;
  rclcpp::Service<Ask>::SharedPtr questions_;
  rclcpp_lifecycle::LifecyclePublisher<String>::SharedPtr captions_;
};

int main(int argc, char** argv) {
  rclcpp::init(argc, argv);
  rclcpp::executors::MultiThreadedExecutor executor;
  const auto node = std::make_shared<OcellusNode>();
  executor.add_node(node->get_node_base_interface());
  executor.spin();
  rclcpp::shutdown();
  return 0;
}
