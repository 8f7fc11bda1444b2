// The part of rclcpp that the ROS 2 node uses, with the signatures of Humble (OCELLUS_ROS_HUMBLE) or of Kilted, and no
// transport: a test calls subscribed callbacks. Messages are made by messages.hpp.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <messages.hpp>
#include <string>
#include <utility>
#include <variant>

struct rmw_qos_profile_t {
  size_t depth = 10;
};

namespace rclcpp {

struct KeepLast {
  explicit KeepLast(size_t frames) : depth(frames) {}
  size_t depth;
};

class QoS {
 public:
  QoS(const KeepLast& history) : profile_{history.depth} {}  // NOLINT: implicit in rclcpp, too
  QoS& keep_last(size_t depth) {
    profile_.depth = depth;
    return *this;
  }
  rmw_qos_profile_t& get_rmw_qos_profile() { return profile_; }
  const rmw_qos_profile_t& get_rmw_qos_profile() const { return profile_; }

 private:
  rmw_qos_profile_t profile_;
};
struct SensorDataQoS : QoS {
  SensorDataQoS() : QoS(KeepLast(5)) {}
};
struct ServicesQoS : QoS {
  ServicesQoS() : QoS(KeepLast(10)) {}
};

class Duration {
 public:
  explicit Duration(double seconds) : seconds_(seconds) {}
  double seconds() const { return seconds_; }

 private:
  double seconds_;
};
class Time {
 public:
  Time(const builtin_interfaces::msg::Time& stamp) : seconds_(stamp.sec + 1e-9 * stamp.nanosec) {}  // NOLINT
  Duration operator-(const Time& other) const { return Duration(seconds_ - other.seconds_); }

 private:
  double seconds_;
};

struct Logger {};
#define RCLCPP_ERROR(logger, ...) ((void)(logger), std::fprintf(stderr, __VA_ARGS__), std::fputc('\n', stderr))
#define RCLCPP_WARN RCLCPP_ERROR
#define RCLCPP_DEBUG(logger, ...) ((void)(logger), (void)std::snprintf(nullptr, 0, __VA_ARGS__))

enum class CallbackGroupType { MutuallyExclusive, Reentrant };
struct CallbackGroup {
  using SharedPtr = std::shared_ptr<CallbackGroup>;
};
struct SubscriptionOptions {
  CallbackGroup::SharedPtr callback_group;
};

template <class Message>
struct Subscription {
  using SharedPtr = std::shared_ptr<Subscription>;
  std::function<void(typename Message::ConstSharedPtr)> callback;
};
template <class Type>
struct Service {
  using SharedPtr = std::shared_ptr<Service>;
  std::function<void(std::shared_ptr<typename Type::Request>, std::shared_ptr<typename Type::Response>)> callback;
};

class Parameter {
 public:
  Parameter() = default;
  explicit Parameter(int64_t value) : value_(value) {}
  explicit Parameter(std::string value) : value_(std::move(value)) {}
  int64_t as_int() const { return std::get<int64_t>(value_); }
  std::string as_string() const { return std::get<std::string>(value_); }

 private:
  std::variant<int64_t, std::string> value_;
};

namespace node_interfaces {
struct NodeBaseInterface {
  using SharedPtr = std::shared_ptr<NodeBaseInterface>;
};
}  // namespace node_interfaces

namespace executors {
struct MultiThreadedExecutor {
  void add_node(const node_interfaces::NodeBaseInterface::SharedPtr& /*node*/) {}
  void spin() {}
};
}  // namespace executors

inline void init(int /*argc*/, char** /*argv*/) {}
inline void shutdown() {}

}  // namespace rclcpp
