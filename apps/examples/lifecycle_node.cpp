// A node's life cycle as in ROS 2, without ROS: configure allocates all memory, activate starts the work, deactivate
// cancels work in progress, cleanup releases everything. At most one frame waits, the newest (KeepLast(1)); answers
// carry the time of capture. usage: lifecycle_node MODEL.gguf MMPROJ.gguf
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <ocellus.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using Clock = ocellus::Clock;

struct Frame {
  Clock::time_point captured;
  int side = 256;
  std::vector<uint8_t> rgb;
};

class CaptionNode {
 public:
  ocellus::Status configure(const char* model_path, const char* mmproj_path) {
    auto model = ocellus::Model::open(model_path, mmproj_path);
    if (!model) return model.status();
    auto config = ocellus::engine_config();
    config.limits.max_image_pixels = 256 * 256;
    auto engine = ocellus::Engine::create(*model, config);
    if (!engine) return engine.status();
    auto session = ocellus::Session::open(*engine);
    if (!session) return session.status();
    model_ = std::move(*model);
    engine_ = std::move(*engine);
    session_ = std::move(*session);
    return {};
  }
  void activate() {
    active_ = true;
    worker_ = std::thread([this] { work(); });
  }
  /// The subscription: replaces a frame that still waits.
  void receive(Frame frame) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_) ++dropped_;
    waiting_ = std::move(frame);
    changed_.notify_one();
  }
  void deactivate() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      active_ = false;
      session_.cancel();  // returns within the time of one layer
      changed_.notify_one();
    }
    worker_.join();
  }
  void cleanup() {
    session_ = {};
    engine_ = {};
    model_ = {};
  }
  int answered() const { return answered_; }

 private:
  void work() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return waiting_ || !active_; });
      if (!active_) return;
      const Frame frame = std::move(*waiting_);
      waiting_.reset();
      const int dropped = dropped_;
      lock.unlock();

      const ocellus::Status status = describe(frame);
      if (status.code() == OCELLUS_CANCELLED) return;
      const std::chrono::duration<double, std::milli> age = Clock::now() - frame.captured;
      std::printf("%s  [%.1f ms old, %d dropped]\n", status ? answer_.c_str() : status.sentence(), age.count(),
                  dropped);
      ++answered_;
    }
  }
  ocellus::Status describe(const Frame& frame) {
    answer_.clear();
    ocellus_frame view{};
    view.format = OCELLUS_RGB8;
    view.width = view.height = frame.side;
    view.plane[0] = frame.rgb.data();
    view.stride_bytes[0] = frame.side * 3;
    session_.set_deadline(frame.captured + std::chrono::seconds(2));
    ocellus::Status status = session_.forget_all();
    if (status) status = session_.begin_turn();
    if (!active_) status = OCELLUS_CANCELLED;  // a cancellation before begin_turn was not meant for this turn
    if (status) status = session_.add_image(view);
    if (status) status = session_.add_text("Describe this image.");
    if (status) status = session_.end_turn();
    if (status)
      status = session_.generate([this](std::string_view text) { return answer_.append(text).size() < 1000; });
    return status;
  }

  ocellus::Model model_;
  ocellus::Engine engine_;
  ocellus::Session session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Frame> waiting_;
  std::atomic<bool> active_{false};
  int dropped_ = 0;
  std::atomic<int> answered_{0};
  std::string answer_;
  std::thread worker_;
};

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: lifecycle_node MODEL.gguf MMPROJ.gguf\n"), 2;
  CaptionNode node;
  if (const ocellus::Status status = node.configure(argv[1], argv[2]); !status)
    return std::fprintf(stderr, "%s\n", status.sentence()), 1;
  for (int round = 1; round <= 2; ++round) {  // a node may be activated again
    node.activate();
    for (int i = 0; i < 3000 && node.answered() < 2 * round; ++i) {  // a camera with 100 frames a second
      Frame frame;
      frame.captured = Clock::now();
      frame.rgb.assign(256 * 256 * 3, static_cast<uint8_t>(8 * i));
      node.receive(std::move(frame));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    node.deactivate();
  }
  node.cleanup();
  return node.answered() >= 4 ? 0 : 1;
}
