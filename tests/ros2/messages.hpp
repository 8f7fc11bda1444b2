// The messages that the ROS 2 node uses, as rosidl makes them of their definitions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace builtin_interfaces::msg {
struct Time {
  int32_t sec = 0;
  uint32_t nanosec = 0;
};
}  // namespace builtin_interfaces::msg

namespace std_msgs::msg {
struct Header {
  builtin_interfaces::msg::Time stamp;
  std::string frame_id;
};
}  // namespace std_msgs::msg

namespace sensor_msgs::msg {
struct Image {
  using ConstSharedPtr = std::shared_ptr<const Image>;
  std_msgs::msg::Header header;
  uint32_t height = 0;
  uint32_t width = 0;
  std::string encoding;
  uint8_t is_bigendian = 0;
  uint32_t step = 0;
  std::vector<uint8_t> data;
};
struct CompressedImage {
  using ConstSharedPtr = std::shared_ptr<const CompressedImage>;
  std_msgs::msg::Header header;
  std::string format;
  std::vector<uint8_t> data;
};
}  // namespace sensor_msgs::msg

namespace ocellus_ros {
namespace msg {
struct Caption {
  std_msgs::msg::Header header;
  std::string text;
};
}  // namespace msg
namespace srv {
struct Ask {
  struct Request {
    std::string question;
  };
  struct Response {
    bool success = false;
    std_msgs::msg::Header header;
    std::string answer;
  };
};
}  // namespace srv
}  // namespace ocellus_ros
