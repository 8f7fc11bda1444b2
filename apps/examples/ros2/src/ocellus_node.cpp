// Describes frames of sensor_msgs/Image `image` or, with -p image_transport:=compressed, of sensor_msgs/CompressedImage
// `image/compressed` (JPEG, PNG) on `~/caption`; the service `~/ask` answers a question about the newest. Both carry
// the header of their frame. Only the newest frame is kept (KeepLast(1)); a transition to inactive cancels work in
// progress. For rclcpp of Humble, Jazzy and Kilted.
//   ros2 run ocellus_ros ocellus_node --ros-args -p model:=M.gguf -p mmproj:=P.gguf -r image:=/camera/image_raw
//   ros2 lifecycle set /ocellus configure; ros2 lifecycle set /ocellus activate
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <ocellus.hpp>
#include <ocellus_ros/msg/caption.hpp>
#include <ocellus_ros/srv/ask.hpp>
#include <rclcpp/rclcpp.hpp>
#include <rclcpp_lifecycle/lifecycle_node.hpp>
#include <sensor_msgs/msg/compressed_image.hpp>
#include <sensor_msgs/msg/image.hpp>
#include <std_msgs/msg/header.hpp>
#include <string>
#include <utility>

using Ask = ocellus_ros::srv::Ask;
using Caption = ocellus_ros::msg::Caption;
using CompressedImage = sensor_msgs::msg::CompressedImage;
using Header = std_msgs::msg::Header;
using Image = sensor_msgs::msg::Image;

/// Services take rclcpp::QoS since Iron, and only that since Kilted; Humble takes rmw_qos_profile_t.
template <class Node, class Callback>
auto create_ask_service(Node& node, Callback callback, rclcpp::CallbackGroup::SharedPtr group, int)
    -> decltype(node.template create_service<Ask>("~/ask", std::move(callback), rclcpp::ServicesQoS(), group)) {
  return node.template create_service<Ask>("~/ask", std::move(callback), rclcpp::ServicesQoS(), group);
}
template <class Node, class Callback>
rclcpp::Service<Ask>::SharedPtr create_ask_service(Node& node, Callback callback,
                                                   rclcpp::CallbackGroup::SharedPtr group, long) {
  return node.template create_service<Ask>("~/ask", std::move(callback), rclcpp::ServicesQoS().get_rmw_qos_profile(),
                                           group);
}

class OcellusNode : public rclcpp_lifecycle::LifecycleNode {
 public:
  using CallbackReturn = rclcpp_lifecycle::node_interfaces::LifecycleNodeInterface::CallbackReturn;

  OcellusNode() : LifecycleNode("ocellus") {
    declare_parameter<std::string>("model", "");
    declare_parameter<std::string>("mmproj", "");
    declare_parameter<std::string>("prompt", "Describe this image.");
    declare_parameter<std::string>("image_transport", "raw");
    declare_parameter<int64_t>("budget", 0);  // bytes; 0: none
    declare_parameter<int64_t>("kv_bits", 4);
    declare_parameter<int64_t>("deadline_ms", 2000);
    declare_parameter<int64_t>("max_image_pixels", 1920 * 1080);
    declare_parameter<int64_t>("max_whole_pixels", 0);  // limit of progressive JPEGs; 0: the library's default
    declare_parameter<int64_t>("depth_near", 0);        // 16UC1 is depth: grey from white here
    declare_parameter<int64_t>("depth_far", 0);         // to black here; 0: the upper eight bits
  }

  /// Allocates all memory: Ocellus allocates nothing afterwards.
  CallbackReturn on_configure(const rclcpp_lifecycle::State&) override {
    auto model =
        ocellus::Model::open(get_parameter("model").as_string().c_str(), get_parameter("mmproj").as_string().c_str());
    if (!model) return refuse();
    auto config = ocellus::engine_config();
    config.limits.budget_bytes = get_parameter("budget").as_int();
    config.limits.cache.kv_bits = static_cast<int32_t>(get_parameter("kv_bits").as_int());
    config.limits.max_image_pixels = get_parameter("max_image_pixels").as_int();
    config.limits.max_gpu_pixels = config.limits.max_image_pixels;
    config.limits.max_whole_pixels = get_parameter("max_whole_pixels").as_int();
    config.limits.depth_near = static_cast<int32_t>(get_parameter("depth_near").as_int());
    config.limits.depth_far = static_cast<int32_t>(get_parameter("depth_far").as_int());
    auto engine = ocellus::Engine::create(*model, config);
    if (!engine) return refuse();
    auto session = ocellus::Session::open(*engine);
    if (!session) return refuse();
    model_ = std::move(*model);
    engine_ = std::move(*engine);
    session_ = std::move(*session);
    captions_ = create_publisher<Caption>("~/caption", rclcpp::QoS(rclcpp::KeepLast(1)));
    return CallbackReturn::SUCCESS;
  }

  /// Frames and questions are processed one after another, concurrently with transitions.
  CallbackReturn on_activate(const rclcpp_lifecycle::State& state) override {
    LifecycleNode::on_activate(state);
    active_ = true;
    if (!work_group_) work_group_ = create_callback_group(rclcpp::CallbackGroupType::MutuallyExclusive);
    rclcpp::SubscriptionOptions options;
    options.callback_group = work_group_;
    const rclcpp::QoS newest = rclcpp::SensorDataQoS().keep_last(1);
    if (get_parameter("image_transport").as_string() == "compressed") {
      const auto on_frame = [this](CompressedImage::ConstSharedPtr image) { receive({nullptr, image}); };
      files_ = create_subscription<CompressedImage>("image/compressed", newest, on_frame, options);
    } else {
      const auto on_frame = [this](Image::ConstSharedPtr image) { receive({image, nullptr}); };
      frames_ = create_subscription<Image>("image", newest, on_frame, options);
    }
    const auto on_question = [this](const std::shared_ptr<Ask::Request> request,
                                    std::shared_ptr<Ask::Response> response) { answer(*request, *response); };
    questions_ = create_ask_service(*this, on_question, work_group_, 0);
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_deactivate(const rclcpp_lifecycle::State& state) override {
    active_ = false;
    session_.cancel();  // the call in progress returns within the time of one layer
    const std::lock_guard<std::mutex> lock(work_);
    frames_.reset();
    files_.reset();
    questions_.reset();
    LifecycleNode::on_deactivate(state);
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_cleanup(const rclcpp_lifecycle::State&) override {
    newest_ = {};
    captions_.reset();
    session_ = {};
    engine_ = {};
    model_ = {};
    return CallbackReturn::SUCCESS;
  }

 private:
  /// Either kind of message.
  struct Frame {
    Image::ConstSharedPtr image;
    CompressedImage::ConstSharedPtr file;
    explicit operator bool() const { return image != nullptr || file != nullptr; }
    const Header& header() const { return image != nullptr ? image->header : file->header; }
  };

  CallbackReturn refuse() {
    RCLCPP_ERROR(get_logger(), "%s", ocellus::Status::sentence());
    return CallbackReturn::FAILURE;
  }

  void receive(const Frame& frame) {
    const std::lock_guard<std::mutex> lock(work_);
    if (!active_) return;
    newest_ = frame;
    Caption caption;
    caption.header = frame.header();
    const ocellus::Status status = ask(get_parameter("prompt").as_string(), caption.text);
    const double age_ms = (now() - rclcpp::Time(caption.header.stamp)).seconds() * 1e3;
    if (status.code() == OCELLUS_CANCELLED) return;
    if (!status) RCLCPP_WARN(get_logger(), "after %.0f ms: %s", age_ms, status.sentence());
    RCLCPP_DEBUG(get_logger(), "answered %.0f ms after the capture", age_ms);
    if (status && active_) captions_->publish(caption);
  }

  void answer(const Ask::Request& request, Ask::Response& response) {
    const std::lock_guard<std::mutex> lock(work_);
    const bool can = active_ && newest_;
    if (can) response.header = newest_.header();
    const ocellus::Status status = can ? ask(request.question, response.answer) : OCELLUS_CANCELLED;
    response.success = status.ok();
    if (!response.success) response.answer = can ? status.sentence() : "there is no frame yet";
  }

  /// Asks about the newest frame.
  ocellus::Status ask(const std::string& prompt, std::string& text) {
    const std::chrono::milliseconds deadline(get_parameter("deadline_ms").as_int());
    session_.set_deadline(ocellus::Clock::now() + deadline);
    ocellus::Status status = session_.forget_all();
    if (status) status = session_.begin_turn();
    if (!active_) status = OCELLUS_CANCELLED;  // a cancellation before begin_turn was not meant for this turn
    if (status) status = add_newest();
    if (status) status = session_.add_text(prompt);
    if (status) status = session_.end_turn();
    if (status) status = session_.generate([&](std::string_view piece) { return text.append(piece).size() < 4096; });
    return status;
  }

  ocellus::Status add_newest() {
    if (newest_.image != nullptr) return session_.add_image(view(*newest_.image));
    return session_.add_encoded_image(newest_.file->data);
  }

  /// Wraps the message without a copy. Ocellus refuses other encodings and frames that are too short.
  static ocellus_frame view(const Image& image) {
    ocellus_frame frame{};
    frame.width = static_cast<int32_t>(image.width);
    frame.height = static_cast<int32_t>(image.height);
    frame.stride_bytes[0] = image.step;
    frame.format = -1;
    if (image.encoding == "rgb8") frame.format = OCELLUS_RGB8;
    if (image.encoding == "bgr8") frame.format = OCELLUS_BGR8;
    if (image.encoding == "rgba8") frame.format = OCELLUS_RGBA8;
    if (image.encoding == "bgra8") frame.format = OCELLUS_BGRA8;
    if (image.encoding == "mono8") frame.format = OCELLUS_GRAY8;
    const bool has_16_bits = image.encoding == "16UC1" || image.encoding == "mono16";
    if (has_16_bits && image.is_bigendian == 0) frame.format = OCELLUS_GRAY16;
    if (image.encoding == "yuv422_yuy2" || image.encoding == "yuyv") frame.format = OCELLUS_YUYV;
    if (image.data.size() < static_cast<size_t>(image.step) * image.height) return frame;  // no plane
    frame.plane[0] = image.data.data();
    return frame;
  }

  std::mutex work_;
  std::atomic<bool> active_{false};
  ocellus::Model model_;
  ocellus::Engine engine_;
  ocellus::Session session_;
  Frame newest_;
  rclcpp::CallbackGroup::SharedPtr work_group_;
  rclcpp::Subscription<Image>::SharedPtr frames_;
  rclcpp::Subscription<CompressedImage>::SharedPtr files_;
  rclcpp::Service<Ask>::SharedPtr questions_;
  rclcpp_lifecycle::LifecyclePublisher<Caption>::SharedPtr captions_;
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
