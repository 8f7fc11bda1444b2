// See rclcpp/rclcpp.hpp.
#pragma once

#include <any>
#include <rclcpp/rclcpp.hpp>
#include <vector>

namespace rclcpp_lifecycle {

struct State {};

namespace node_interfaces {
struct LifecycleNodeInterface {
  enum class CallbackReturn : uint8_t { SUCCESS, FAILURE, ERROR };
  virtual ~LifecycleNodeInterface() = default;
  virtual CallbackReturn on_configure(const State& /*before*/) { return CallbackReturn::SUCCESS; }
  virtual CallbackReturn on_activate(const State& /*before*/) { return CallbackReturn::SUCCESS; }
  virtual CallbackReturn on_deactivate(const State& /*before*/) { return CallbackReturn::SUCCESS; }
  virtual CallbackReturn on_cleanup(const State& /*before*/) { return CallbackReturn::SUCCESS; }
};
}  // namespace node_interfaces

template <class Message>
struct LifecyclePublisher {
  using SharedPtr = std::shared_ptr<LifecyclePublisher>;
  std::vector<Message> published;
  void publish(const Message& message) { published.push_back(message); }
};

class LifecycleNode : public node_interfaces::LifecycleNodeInterface {
 public:
  explicit LifecycleNode(const std::string& /*name*/) {}

  template <class Value>
  void declare_parameter(const std::string& name, const Value& value) {
    parameters.emplace(name, rclcpp::Parameter(value));
  }
  rclcpp::Parameter get_parameter(const std::string& name) const { return parameters.at(name); }
  rclcpp::Logger get_logger() const { return {}; }
  rclcpp::Time now() const { return builtin_interfaces::msg::Time{}; }
  rclcpp::CallbackGroup::SharedPtr create_callback_group(rclcpp::CallbackGroupType /*type*/) {
    return std::make_shared<rclcpp::CallbackGroup>();
  }
  rclcpp::node_interfaces::NodeBaseInterface::SharedPtr get_node_base_interface() { return nullptr; }

  template <class Message>
  std::shared_ptr<LifecyclePublisher<Message>> create_publisher(const std::string& topic, const rclcpp::QoS& /*qos*/) {
    return keep(topic, std::make_shared<LifecyclePublisher<Message>>());
  }
  template <class Message, class Callback>
  std::shared_ptr<rclcpp::Subscription<Message>> create_subscription(const std::string& topic,
                                                                     const rclcpp::QoS& /*qos*/, Callback&& callback,
                                                                     const rclcpp::SubscriptionOptions& /*options*/) {
    auto made = std::make_shared<rclcpp::Subscription<Message>>();
    made->callback = std::forward<Callback>(callback);
    return keep(topic, made);
  }
#ifdef OCELLUS_ROS_HUMBLE
  using ServiceQoS = rmw_qos_profile_t;
#else
  using ServiceQoS = rclcpp::QoS;
#endif
  template <class Type, class Callback>
  typename rclcpp::Service<Type>::SharedPtr create_service(const std::string& name, Callback&& callback,
                                                           const ServiceQoS& /*qos*/,
                                                           rclcpp::CallbackGroup::SharedPtr /*group*/ = nullptr) {
    auto made = std::make_shared<rclcpp::Service<Type>>();
    made->callback = std::forward<Callback>(callback);
    return keep(name, made);
  }

  // Entities created by the node, by name, for tests: null once the node has released them.
  template <class Entity>
  std::shared_ptr<Entity> find(const std::string& name) {
    const auto found = entities_.find(name);
    if (found == entities_.end()) return nullptr;
    const auto* held = std::any_cast<std::weak_ptr<Entity>>(&found->second);
    return held == nullptr ? nullptr : held->lock();
  }
  std::map<std::string, rclcpp::Parameter> parameters;

 private:
  template <class Entity>
  std::shared_ptr<Entity> keep(const std::string& name, const std::shared_ptr<Entity>& entity) {
    entities_[name] = std::weak_ptr<Entity>(entity);
    return entity;
  }
  std::map<std::string, std::any> entities_;
};

}  // namespace rclcpp_lifecycle
