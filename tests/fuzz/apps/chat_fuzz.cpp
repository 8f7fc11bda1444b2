// Requests to /v1/chat/completions, from their bytes to the parts that the model reads.
#include <nlohmann/json.hpp>

#include "apps/serve/chat_request.h"
#include "apps/serve/data_url.h"
#include "apps/serve/request_error.h"
#include "tests/fuzz/apps/json_changes.h"

namespace ocellus::fuzz {
namespace {

std::vector<Bytes> make_seeds() {
  const std::string frame = app::encode_base64(read_source_file("tests/data/images/gray_2.png"));
  const std::string picture =
      R"({"type":"image_url","image_url":{"url":"data:image/png;base64,)" + frame + R"(","detail":"low"}})";
  const std::string words = R"({"type":"text","text":"What is there?"})";
  return {
      bytes_of(R"({"messages":[{"role":"user","content":"Hello"}]})"),
      bytes_of(R"({"model":"m","messages":[{"role":"system","content":"Be short."},{"role":"user","content":[)" +
               picture + "," + words + "," + picture + R"(]},{"role":"assistant","content":"Two."},)" +
               R"({"role":"user","content":[)" + words + R"(]}],"stream":true,)" +
               R"("stream_options":{"include_usage":true},"max_tokens":5,"temperature":0.5,"top_p":0.9,"top_k":40,)" +
               R"("min_p":0.1,"seed":-7,"stop":["\n","end"],"repetition_penalty":1.1,"ignore_eos":false})"),
      bytes_of(R"({"messages":[{"role":"user","content":[)" + words + R"(,{"type":"image_url","image_url":)" +
               R"({"url":"library:0123456789abcdef0123456789abcdef"}}]}]})"),
      bytes_of(std::string(R"({"messages":[{"role":"user","content":[{"type":"video_url","video_url":{"fps":2,)") +
               R"("url":"data:video/jpeg;base64,)" + frame + "," + frame + R"("}},)" + words + R"(]}],"n":2})"),
      bytes_of(R"({"messages":[{"role":"user","content":[)" + words + R"(]}],"max_completion_tokens":9,"stop":"x",)" +
               R"("n":1,"tools":[],"response_format":{"type":"text"},"modalities":["text"],"user":"u",)" +
               R"("logit_bias":{},"tool_choice":"none","metadata":{"a":"b"},"frequency_penalty":0})"),
      bytes_of(R"({"messages":[{"role":"user","content":"Look"},{"role":"assistant","content":null,"tool_calls":[)"
               R"({"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool",)"
               R"("tool_call_id":"1","content":"2"}],"tools":[{"type":"function","function":{"name":"f","parameters":)"
               R"({"$defs":{"a":{"const":1}},"$ref":"#/$defs/a"}}}],"tool_choice":"required","logprobs":true,)"
               R"("top_logprobs":2,"parallel_tool_calls":false})"),
      bytes_of(R"({"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":)"
               R"({"name":"x","schema":{"type":"object"}}},"structured_outputs":{"choice":["a","b"]},"grammar":"",)"
               R"("score_choices":["a","b"]})")};
}

bool run(const uint8_t* data, size_t size) {
  ocellus_generate_params defaults;
  ocellus_generate_params_init(&defaults);
  std::string body(data, data + size);
  try {
    const app::ToolSyntax& syntax = size % 2 == 0 ? app::kJsonTools : app::kGemma4Tools;
    const app::ChatRequest request = app::parse_chat_request(&body, defaults, syntax);
    require(!request.turns.empty(), "a request that is accepted says something");
    require(request.params.temperature >= 0 && request.params.top_p > 0 && request.params.top_p <= 1,
            "sampling is within its ranges");
    for (const app::ChatTurn& turn : request.turns) {
      const int64_t images = app::count_images(turn.parts);
      for (const app::ChatPart& part : turn.parts) {
        const auto is_inside = [&](std::string_view picture) {
          return picture.data() >= body.data() && picture.data() + picture.size() <= body.data() + body.size();
        };
        require(!part.is_picture() || !part.key.empty() || is_inside(part.picture), "a picture lies in the body");
        for (const std::string_view frame : part.frames) require(is_inside(frame), "a frame lies in the body");
      }
      require(app::count_images(app::arrange_parts(turn.parts, 0)) == images, "no picture gets lost");
    }
    return true;
  } catch (const app::RequestError& error) {
    require(error.status() == 400 && error.what()[0] != '\0', "a bad request is refused with a sentence");
    require(nlohmann::json::accept(app::error_json(error)), "a refusal is JSON");
    return false;
  }
}

const Registration kRegistered({.name = "chat",
                                .make_seeds = make_seeds,
                                .mutate = change_json,
                                .run = run,
                                .most_heap_bytes = app::kMaxReadingBytes + (int64_t{1} << 20)});

}  // namespace
}  // namespace ocellus::fuzz
