/** @file
 * Ocellus for C++17 and later: ocellus.h with owning handles, results, spans, lambdas and steady_clock. Header-only;
 * allocates nothing; needs neither exceptions nor RTTI. Facts, structs and enumerations are those of ocellus.h, and the
 * sentences there about a function hold for what calls it here.
 * @code
 * auto model = ocellus::Model::open("model.gguf", "mmproj.gguf");
 * auto engine = ocellus::Engine::create(*model, ocellus::engine_config());
 * auto session = ocellus::Session::open(*engine);
 * ...
 * if (ocellus::Status status = session->end_turn(); !status) puts(status.sentence());
 * @endcode
 * A model must outlive its engines, an engine its sessions, a library the sessions that use it: declared in this order,
 * they do. Texts that ocellus.h wants terminated are `const char*`, others std::string_view. */
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ocellus.h"

/// The C++ API.
namespace ocellus {
/// The namespace of all names here; users write ocellus.
inline namespace cpp {  // distinct from the names of the archive's own classes

/// Result of a call. Converts to true for success.
class [[nodiscard]] Status {
 public:
  Status() = default;
  /// Holds what a function of ocellus.h returned.
  Status(ocellus_status code) : code_(code) {}
  /// True for success.
  explicit operator bool() const { return code_ == OCELLUS_OK; }
  /// True for success.
  bool ok() const { return code_ == OCELLUS_OK; }
  /// The status of ocellus.h.
  ocellus_status code() const { return code_; }
  /// Calls ocellus_status_name().
  const char* name() const { return ocellus_status_name(code_); }
  /// Returns the sentence of the calling thread's last failure: call it right after the failure.
  static const char* sentence() { return ocellus_last_error()->sentence; }
  /// Returns the calling thread's last failure.
  static const ocellus_failure& failure() { return *ocellus_last_error(); }

 private:
  ocellus_status code_ = OCELLUS_OK;
};

/// A value, or the status of a failure; the value is then T{}.
template <class T>
class [[nodiscard]] Result {
 public:
  /// Holds a failure.
  Result(ocellus_status code) : status_(code) {}
  /// Holds a value and its status.
  Result(ocellus_status code, T value) : status_(code), value_(std::move(value)) {}
  /// True for success.
  explicit operator bool() const { return status_.ok(); }
  /// True for success.
  bool ok() const { return status_.ok(); }
  /// The status.
  Status status() const { return status_; }
  /// The value.
  T& operator*() & { return value_; }
  /// The value.
  const T& operator*() const& { return value_; }
  /// The value, to be moved from.
  T&& operator*() && { return std::move(value_); }
  /// The value's members.
  T* operator->() { return &value_; }
  /// The value's members.
  const T* operator->() const { return &value_; }

 private:
  Status status_;
  T value_{};
};

/// A view of contiguous elements, not owned.
template <class T>
class Span {
 public:
  constexpr Span() = default;
  /// Views `size` elements from `data`.
  constexpr Span(T* data, size_t size) : data_(data), size_(size) {}
  /// Views the elements of a container.
  template <class Container,
            class = std::enable_if_t<std::is_convertible_v<decltype(std::data(std::declval<Container&>())), T*>>>
  constexpr Span(Container&& container) : data_(std::data(container)), size_(std::size(container)) {}
  /// The first element.
  constexpr T* data() const { return data_; }
  /// The number of elements.
  constexpr size_t size() const { return size_; }
  /// The first element.
  constexpr T* begin() const { return data_; }
  /// One past the last element.
  constexpr T* end() const { return data_ + size_; }
  /// An element; `index` is not checked.
  constexpr T& operator[](size_t index) const { return data_[index]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// A view of the bytes of any contiguous container: a vector, a string_view, an array.
class Bytes {
 public:
  /// Views `size` bytes from `data`.
  Bytes(const void* data, size_t size) : data_(data), size_(size) {}
  /// Views the bytes of a container.
  template <class Container, class = decltype(std::data(std::declval<const Container&>()))>
  Bytes(const Container& container) : data_(std::data(container)), size_(std::size(container)) {
    static_assert(sizeof(*std::data(container)) == 1, "bytes are wanted");
  }
  /// The first byte.
  const void* data() const { return data_; }
  /// The number of bytes.
  int64_t size() const { return static_cast<int64_t>(size_); }

 private:
  const void* data_;
  size_t size_;
};

/// A reference to a function object that must outlive the call that takes this.
template <class Signature>
class FunctionRef;
/// A reference to a function object of this signature.
template <class R, class... Arguments>
class FunctionRef<R(Arguments...)> {
 public:
  FunctionRef() = default;
  /// Refers to nothing.
  FunctionRef(std::nullptr_t) {}
  /// Refers to `function`.
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef> &&
                                              std::is_invocable_r_v<R, F&, Arguments...>>>
  FunctionRef(F&& function)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* object, Arguments... arguments) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Arguments>(arguments)...);
        }) {}
  /// True if it refers to a function.
  explicit operator bool() const { return call_ != nullptr; }
  /// Calls the function, which there must be.
  R operator()(Arguments... arguments) const { return call_(object_, std::forward<Arguments>(arguments)...); }

 private:
  void* object_ = nullptr;
  R (*call_)(void*, Arguments...) = nullptr;
};
/// Receives the next piece of an answer; returns true to continue.
using OnText = FunctionRef<bool(std::string_view)>;
/// Receives the next bytes of a file and their number; returns true to continue.
using OnBytes = FunctionRef<bool(const void*, int64_t)>;
/// Receives one entry; returns true to continue.
using OnItem = FunctionRef<bool(const ocellus_library_item&)>;

/// CLOCK_MONOTONIC, the clock of deadlines.
using Clock = std::chrono::steady_clock;
/// No deadline.
inline constexpr Clock::time_point kNoDeadline{};
/// Returns a deadline as ocellus.h has it.
inline int64_t deadline_ns(Clock::time_point deadline) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
}

/// Returns limits with their defaults: ocellus_limits_init().
inline ocellus_limits limits() {
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  return limits;
}
/// Returns a configuration with its defaults: ocellus_engine_config_init().
inline ocellus_engine_config engine_config() {
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  return config;
}
/// Returns an allocator with its defaults: ocellus_allocator_init().
inline ocellus_allocator allocator() {
  ocellus_allocator allocator;
  ocellus_allocator_init(&allocator);
  return allocator;
}
/// Returns parameters with their defaults: ocellus_generate_params_init().
inline ocellus_generate_params generate_params() {
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  return params;
}
/// Returns labels with their defaults: ocellus_library_keep_init().
inline ocellus_library_keep library_keep() {
  ocellus_library_keep keep;
  ocellus_library_keep_init(&keep);
  return keep;
}
/// `function(int32_t level, const char* text)` must outlive the engines created with the configuration.
template <class F>
void set_log(ocellus_engine_config& config, F& function) {
  config.log_user = std::addressof(function);
  config.log = [](void* user, int32_t level, const char* text) { (*static_cast<F*>(user))(level, text); };
}
/// `function(int64_t done_bytes, int64_t total_bytes)` must outlive the engine's creation; it returns true to continue.
template <class F>
void set_progress(ocellus_engine_config& config, F& function) {
  config.progress_user = std::addressof(function);
  config.progress = [](void* user, int64_t done_bytes, int64_t total_bytes) {
    return (*static_cast<F*>(user))(done_bytes, total_bytes) ? 0 : 1;
  };
}
/// `on_text` must outlive the calls with these parameters; needed for batch_generate only.
inline void set_on_text(ocellus_generate_params& params, OnText& on_text) {
  params.user = &on_text;
  params.on_text = [](void* user, const char* text, int32_t text_bytes) {
    return (*static_cast<OnText*>(user))({text, static_cast<size_t>(text_bytes)}) ? 0 : 1;
  };
}

/// The same for the thought before an answer; for generate(), too.
inline void set_on_thought(ocellus_generate_params& params, OnText& on_thought) {
  params.thought_user = &on_thought;
  params.on_thought = [](void* user, const char* text, int32_t text_bytes) {
    return (*static_cast<OnText*>(user))({text, static_cast<size_t>(text_bytes)}) ? 0 : 1;
  };
}

/// Calls ocellus_version().
inline const char* version() { return ocellus_version(); }
/// Calls ocellus_built_with_cuda().
inline bool built_with_cuda() { return ocellus_built_with_cuda() != 0; }
/// Calls ocellus_gpu_count().
inline int32_t gpu_count() { return ocellus_gpu_count(); }
/// Calls ocellus_probe_gpu().
inline Result<ocellus_gpu_facts> probe_gpu(int32_t index) {
  ocellus_gpu_facts facts{};
  const ocellus_status status = ocellus_probe_gpu(index, &facts);
  return {status, facts};
}
/// Returns the index-th public model that can be read; OCELLUS_BAD_ARGUMENT after the last.
inline Result<ocellus_known_model> get_known_model(int32_t index) {
  ocellus_known_model model{};
  const ocellus_status status = ocellus_known_model_get(index, &model);
  return {status, model};
}
/// Returns the index-th part that builds may leave out; null after the last.
inline const ocellus_branch* get_branch(int32_t index) { return ocellus_branch_get(index); }
/// Returns the index-th cache method; null after the last.
inline const ocellus_method* get_method(ocellus_method_kind kind, int32_t index) {
  return ocellus_method_get(kind, index);
}
/// Returns the index-th pair of features that one engine cannot have; null after the last.
inline const ocellus_feature_pair* get_feature_pair(int32_t index) { return ocellus_feature_pair_get(index); }
/// Calls ocellus_method_check().
inline Status check_method(ocellus_method_kind kind, const char* text) { return ocellus_method_check(kind, text); }
/// Calls ocellus_image_probe().
inline Result<ocellus_image_facts> probe_image(Bytes encoded) {
  ocellus_image_facts facts{};
  const ocellus_status status = ocellus_image_probe(encoded.data(), encoded.size(), &facts);
  return {status, facts};
}
/// Calls ocellus_image_decode().
inline Status decode_image(Bytes encoded, Span<uint8_t> memory) {
  return ocellus_image_decode(encoded.data(), encoded.size(), memory.data(), static_cast<int64_t>(memory.size()));
}
/// Grey of 16 bits as depth: see ocellus_image_decode_depth.
inline Status decode_depth_image(Bytes encoded, int32_t near, int32_t far, Span<uint8_t> memory) {
  return ocellus_image_decode_depth(encoded.data(), encoded.size(), near, far, memory.data(),
                                    static_cast<int64_t>(memory.size()));
}
/// Draws the next frame of a GIF: see ocellus_image_next_frame.
inline Status next_image_frame(Bytes encoded, int64_t* place, Span<uint8_t> memory) {
  return ocellus_image_next_frame(encoded.data(), encoded.size(), place, memory.data(),
                                  static_cast<int64_t>(memory.size()));
}
/// Writes the frame as the model sees it: RGB8, 3 * width * height bytes.
inline Status convert_frame(const ocellus_frame& frame, Span<uint8_t> rgb) {
  return ocellus_frame_convert(&frame, rgb.data(), static_cast<int64_t>(rgb.size()));
}

/// A text, a picture file or a key as a part of a prompt, valid as long as its bytes are.
inline ocellus_part make_part(ocellus_part_kind kind, Bytes bytes, uint32_t flags = 0) {
  return {kind, flags, bytes.data(), bytes.size(), nullptr, nullptr};
}
/// A frame as a part, valid as long as it is.
inline ocellus_part make_part(const ocellus_frame& frame, uint32_t flags = 0) {
  return {OCELLUS_PART_FRAME, flags, nullptr, 0, &frame, nullptr};
}
/// A clip as a part, valid as long as it is.
inline ocellus_part make_part(const ocellus_clip& clip, uint32_t flags = 0) {
  return {OCELLUS_PART_CLIP, flags, nullptr, 0, nullptr, &clip};
}

/// Owns one object of ocellus.h; empty after a move.
template <class T, void (*kClose)(T*)>
class Handle {
 public:
  Handle() = default;
  ~Handle() { reset(); }
  /// Takes the object of `other`.
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  /// Closes its object and takes that of `other`.
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      object_ = std::exchange(other.object_, nullptr);
    }
    return *this;
  }
  /// True if it owns an object.
  explicit operator bool() const { return object_ != nullptr; }
  /// Returns the handle for functions of ocellus.h.
  T* get() const { return object_; }

 protected:
  /// Owns `object`, which may be null.
  explicit Handle(T* object) : object_(object) {}

 private:
  void reset() {
    if (object_ != nullptr) kClose(std::exchange(object_, nullptr));
  }
  T* object_ = nullptr;
};

/// Size of a picture in pixels.
struct PictureSize {
  int32_t width = 0;   ///< pixels
  int32_t height = 0;  ///< pixels
};

/// A model.
class Model : public Handle<ocellus_model, ocellus_model_close> {
 public:
  Model() = default;
  /// `mmproj_path` may be null.
  static Result<Model> open(const char* model_path, const char* mmproj_path = nullptr) {
    ocellus_model* model = nullptr;
    const ocellus_status status = ocellus_model_open(model_path, mmproj_path, &model);
    return {status, Model(model)};
  }
  /// Calls ocellus_model_open_with_allocator().
  static Result<Model> open(const char* model_path, const char* mmproj_path, const ocellus_allocator& allocator) {
    ocellus_model* model = nullptr;
    const ocellus_status status = ocellus_model_open_with_allocator(model_path, mmproj_path, &allocator, &model);
    return {status, Model(model)};
  }
  /// Calls ocellus_model_open_shape().
  static Result<Model> open_shape(const char* name, const char* format, int32_t layers = 0) {
    ocellus_model* model = nullptr;
    const ocellus_status status = ocellus_model_open_shape(name, format, layers, &model);
    return {status, Model(model)};
  }
  /// Requires a model from open_shape().
  Status write(ocellus_model_file file, uint64_t seed, OnBytes on_bytes) const {
    const auto take = [](void* user, const void* bytes, int64_t byte_count) {
      return (*static_cast<OnBytes*>(user))(bytes, byte_count) ? 0 : 1;
    };
    return ocellus_model_write(get(), file, seed, take, &on_bytes);
  }
  /// Calls ocellus_model_get_facts().
  Result<ocellus_model_facts> facts() const {
    ocellus_model_facts facts{};
    const ocellus_status status = ocellus_model_get_facts(get(), &facts);
    return {status, facts};
  }
  /// Calls ocellus_model_count_tokens().
  Result<int32_t> count_tokens(std::string_view text, uint32_t flags = 0) const {
    int32_t count = 0;
    const auto bytes = static_cast<int64_t>(text.size());
    const ocellus_status status = ocellus_model_count_tokens(get(), text.data(), bytes, flags, &count);
    return {status, count};
  }
  /// Fills `tokens` as far as they fit; the result is their total number.
  Result<int32_t> tokenize(std::string_view text, Span<int32_t> tokens, uint32_t flags = 0) const {
    int32_t count = 0;
    const ocellus_status status = ocellus_model_tokenize(get(), text.data(), static_cast<int64_t>(text.size()), flags,
                                                         tokens.data(), static_cast<int32_t>(tokens.size()), &count);
    return {status, count};
  }
  /// Fills `text` as far as it fits; the result is the length of the token's text.
  Result<int32_t> token_text(int32_t token, Span<char> text, uint32_t flags = 0) const {
    int32_t bytes = 0;
    const ocellus_status status =
        ocellus_model_token_text(get(), token, flags, text.data(), static_cast<int32_t>(text.size()), &bytes);
    return {status, bytes};
  }
  /// Calls ocellus_model_count_image_rows().
  Result<int32_t> count_image_rows(const ocellus_limits& limits, PictureSize picture) const {
    int32_t rows = 0;
    const ocellus_status status = ocellus_model_count_image_rows(get(), &limits, picture.width, picture.height, &rows);
    return {status, rows};
  }
  /// Fills `indices`, of a clip with as many frames at most; the result is how many.
  Result<int32_t> sample_clip(int32_t frame_count, double duration, Span<int32_t> indices,
                              ocellus_clip_sampling sampling = OCELLUS_CLIP_AS_AUTHORS) const {
    int32_t count = 0;
    const auto most = static_cast<int32_t>(indices.size());
    const ocellus_status status =
        ocellus_model_sample_clip(get(), sampling, frame_count, duration, most, indices.data(), &count);
    return {status, count};
  }
  /// Calls ocellus_model_count_turn().
  Result<int32_t> count_turn(Span<const ocellus_part> parts) const {
    int32_t count = 0;
    const ocellus_status status =
        ocellus_model_count_turn(get(), parts.data(), static_cast<int32_t>(parts.size()), &count);
    return {status, count};
  }
  /// Calls ocellus_model_default_system().
  const char* default_system() const { return ocellus_model_default_system(get()); }
  /// Calls ocellus_model_template_tokens().
  Result<int32_t> template_tokens() const {
    int32_t count = 0;
    const ocellus_status status = ocellus_model_template_tokens(get(), &count);
    return {status, count};
  }

 private:
  explicit Model(ocellus_model* model) : Handle(model) {}
};

/// The memory plan. About 16 KB: not for small stacks.
class Plan : public ocellus_plan {
 public:
  Plan() : ocellus_plan{} {}
  /// Calls ocellus_plan_memory().
  static Result<Plan> make(const Model& model, const ocellus_limits& limits) {
    Result<Plan> plan(OCELLUS_OK);
    const ocellus_status status = ocellus_plan_memory(model.get(), &limits, &*plan);
    return status == OCELLUS_OK ? plan : Result<Plan>(status);
  }
  /// Calls ocellus_plan_work().
  static Result<ocellus_work> work(const Model& model, const ocellus_limits& limits) {
    ocellus_work work = {};
    const ocellus_status status = ocellus_plan_work(model.get(), &limits, &work);
    return {status, work};
  }
  /// The rows of the plan's table.
  Span<const ocellus_plan_row> table() const { return {rows, static_cast<size_t>(row_count)}; }
  /// Ways to make the plan fit.
  Span<const ocellus_advice> advices() const { return {advice, static_cast<size_t>(advice_count)}; }
};

/// An engine.
class Engine : public Handle<ocellus_engine, ocellus_engine_destroy> {
 public:
  Engine() = default;
  /// Calls ocellus_engine_create().
  static Result<Engine> create(const Model& model, const ocellus_engine_config& config) {
    ocellus_engine* engine = nullptr;
    const ocellus_status status = ocellus_engine_create(model.get(), &config, &engine);
    return {status, Engine(engine)};
  }
  /// Calls ocellus_engine_get_stats().
  Result<ocellus_engine_stats> stats() const {
    ocellus_engine_stats stats{};
    const ocellus_status status = ocellus_engine_get_stats(get(), &stats);
    return {status, stats};
  }
  /// Calls ocellus_engine_resized_size().
  Result<PictureSize> resized_size(PictureSize picture) const {
    PictureSize size;
    const ocellus_status status =
        ocellus_engine_resized_size(get(), picture.width, picture.height, &size.width, &size.height);
    return {status, size};
  }

 private:
  explicit Engine(ocellus_engine* engine) : Handle(engine) {}
};

/// Returns parameters with their defaults: ocellus_constraint_params_init().
inline ocellus_constraint_params constraint_params() {
  ocellus_constraint_params params;
  ocellus_constraint_params_init(&params);
  return params;
}

/// A constraint.
class Constraint : public Handle<ocellus_constraint, ocellus_constraint_destroy> {
 public:
  Constraint() = default;
  /// Calls ocellus_constraint_create().
  static Result<Constraint> create(const Engine& engine, const ocellus_constraint_params& params) {
    ocellus_constraint* constraint = nullptr;
    const ocellus_status status = ocellus_constraint_create(engine.get(), &params, &constraint);
    return {status, Constraint(constraint)};
  }

 private:
  explicit Constraint(ocellus_constraint* constraint) : Handle(constraint) {}
};

/// An image library.
class Library : public Handle<ocellus_library, ocellus_library_close> {
 public:
  Library() = default;
  /// Calls ocellus_library_open().
  static Result<Library> open(const char* path, int64_t quota_bytes = 0) {
    ocellus_library* library = nullptr;
    const ocellus_status status = ocellus_library_open(path, quota_bytes, &library);
    return {status, Library(library)};
  }
  /// Fills `hits`, the best first; the result is their number.
  Result<int32_t> search_text(const char* owner, std::string_view text, Span<ocellus_library_hit> hits) const {
    int32_t count = 0;
    const auto bytes = static_cast<int64_t>(text.size());
    const auto capacity = static_cast<int32_t>(hits.size());
    const ocellus_status status =
        ocellus_library_search_text(get(), owner, text.data(), bytes, hits.data(), capacity, &count);
    return {status, count};
  }
  /// Calls ocellus_library_list().
  Status list(const char* owner, OnItem on_item) const {
    const ocellus_library_visit visit = [](void* user, const ocellus_library_item* item) {
      return (*static_cast<OnItem*>(user))(*item) ? 0 : 1;
    };
    return ocellus_library_list(get(), owner, visit, &on_item);
  }
  /// The result is true if there is such an entry, here and below.
  Result<bool> describe_entry(const char* owner, const char* key, ocellus_library_item& out) const {
    int32_t found = 0;
    const ocellus_status status = ocellus_library_describe_entry(get(), owner, key, &out, &found);
    return {status, found != 0};
  }
  /// Calls ocellus_library_remove().
  Result<bool> remove(const char* owner, const char* key, bool shared = false) const {
    int32_t found = 0;
    const ocellus_status status = ocellus_library_remove(get(), owner, shared ? 1 : 0, key, &found);
    return {status, found != 0};
  }
  /// Calls ocellus_library_set_pinned().
  Result<bool> set_pinned(const char* owner, const char* key, bool pinned, bool shared = false) const {
    int32_t found = 0;
    const ocellus_status status = ocellus_library_set_pinned(get(), owner, shared ? 1 : 0, key, pinned ? 1 : 0, &found);
    return {status, found != 0};
  }
  /// Calls ocellus_library_relabel().
  Result<bool> relabel(const char* owner, const char* key, const ocellus_library_keep& keep) const {
    int32_t found = 0;
    const ocellus_status status = ocellus_library_relabel(get(), owner, key, &keep, &found);
    return {status, found != 0};
  }
  /// Calls ocellus_library_create_shared().
  Status create_shared(const char* administrator) const { return ocellus_library_create_shared(get(), administrator); }
  /// Calls ocellus_library_set_owner_quota().
  Status set_owner_quota(const char* owner, int64_t bytes) const {
    return ocellus_library_set_owner_quota(get(), owner, bytes);
  }
  /// `owner` may be null: all together.
  Result<ocellus_library_use> describe_use(const char* owner) const {
    ocellus_library_use use{};
    const ocellus_status status = ocellus_library_describe_use(get(), owner, &use);
    return {status, use};
  }
  /// Calls ocellus_library_verify().
  Result<ocellus_library_report> verify() const {
    ocellus_library_report report{};
    const ocellus_status status = ocellus_library_verify(get(), &report);
    return {status, report};
  }
  /// Calls ocellus_library_collect_garbage().
  Result<ocellus_library_report> collect_garbage() const {
    ocellus_library_report report{};
    const ocellus_status status = ocellus_library_collect_garbage(get(), &report);
    return {status, report};
  }

 private:
  explicit Library(ocellus_library* library) : Handle(library) {}
};

/// Numbers that ocellus_session_get_ncar() writes besides the values.
struct Ncar {
  int32_t count = 0;          ///< number of values
  int32_t switch_layer = -1;  ///< first layer of the unified stage; -1: none
};

/// The messages of a conversation, in the form that the model was trained with.
class SessionMessages : public Handle<ocellus_session, ocellus_session_close> {
 public:
  SessionMessages() = default;
  /// Calls ocellus_session_begin_message().
  Status begin_message(ocellus_role role) { return ocellus_session_begin_message(get(), role); }
  /// Calls ocellus_session_end_message().
  Status end_message() { return ocellus_session_end_message(get()); }
  /// Calls ocellus_session_open_answer().
  Status open_answer() { return ocellus_session_open_answer(get()); }
  /// Calls ocellus_session_let_think().
  Status let_think(bool thinks) { return ocellus_session_let_think(get(), thinks ? 1 : 0); }

 protected:
  /// Owns `session`, which may be null.
  explicit SessionMessages(ocellus_session* session) : Handle(session) {}
};

/// A session: one conversation.
class Session : public SessionMessages {
 public:
  Session() = default;
  /// Calls ocellus_session_open().
  static Result<Session> open(const Engine& engine) {
    ocellus_session* session = nullptr;
    const ocellus_status status = ocellus_session_open(engine.get(), &session);
    return {status, Session(session)};
  }
  /// Calls ocellus_session_reset().
  Status forget_all() { return ocellus_session_reset(get()); }
  /// Calls ocellus_session_mark().
  Status mark() { return ocellus_session_mark(get()); }
  /// False: as after forget_all().
  Result<bool> rewind() {
    int32_t found = 0;
    const ocellus_status status = ocellus_session_rewind(get(), &found);
    return {status, found != 0};
  }
  /// Calls ocellus_session_count_tokens().
  Result<int64_t> count_tokens() const {
    int64_t count = 0;
    const ocellus_status status = ocellus_session_count_tokens(get(), &count);
    return {status, count};
  }

  /// Calls ocellus_session_add_system().
  Status add_system(std::string_view text) {
    return ocellus_session_add_system(get(), text.data(), static_cast<int64_t>(text.size()));
  }
  /// Calls ocellus_session_begin_turn().
  Status begin_turn() { return ocellus_session_begin_turn(get()); }
  /// Calls ocellus_session_end_turn().
  Status end_turn() { return ocellus_session_end_turn(get()); }
  /// Calls ocellus_session_add_text().
  Status add_text(std::string_view text, uint32_t flags = 0) {
    return ocellus_session_add_text(get(), text.data(), static_cast<int64_t>(text.size()), flags);
  }
  /// Calls ocellus_session_add_tokens().
  Status add_tokens(Span<const int32_t> tokens) {
    return ocellus_session_add_tokens(get(), tokens.data(), static_cast<int32_t>(tokens.size()));
  }
  /// Calls ocellus_session_add_image().
  Status add_image(const ocellus_frame& frame) { return ocellus_session_add_image(get(), &frame); }
  /// Calls ocellus_session_add_encoded_image().
  Status add_encoded_image(Bytes picture) {
    return ocellus_session_add_encoded_image(get(), picture.data(), picture.size());
  }
  /// Calls ocellus_session_add_parts().
  Status add_parts(Span<const ocellus_part> parts, int32_t* failed_part = nullptr) {
    return ocellus_session_add_parts(get(), parts.data(), static_cast<int32_t>(parts.size()), failed_part);
  }
  /// Calls ocellus_session_add_synthetic_image().
  Status add_synthetic_image() { return ocellus_session_add_synthetic_image(get()); }
  /// Calls ocellus_session_set_rolling().
  Status set_rolling(int32_t images, int32_t sink_tokens = 0) {
    return ocellus_session_set_rolling(get(), images, sink_tokens);
  }
  /// Calls ocellus_session_get_ncar().
  Result<Ncar> get_ncar(Span<float> theta) const {
    Ncar ncar;
    const ocellus_status status = ocellus_session_get_ncar(get(), theta.data(), static_cast<int32_t>(theta.size()),
                                                           &ncar.count, &ncar.switch_layer);
    return {status, ncar};
  }

  /// `on_text` replaces the callback in `params`. `stats` is filled whatever the status; it may be null.
  Status generate(const ocellus_generate_params& params, OnText on_text, ocellus_generate_stats* stats = nullptr) {
    ocellus_generate_params with_text = params;
    if (on_text) set_on_text(with_text, on_text);
    return ocellus_session_generate(get(), &with_text, stats);
  }
  /// Generates with default parameters.
  Status generate(OnText on_text, ocellus_generate_stats* stats = nullptr) {
    return generate(generate_params(), on_text, stats);
  }
  /// `log_probabilities` has as many elements as `tokens`.
  Status score(Span<const int32_t> tokens, Span<float> log_probabilities, ocellus_generate_stats* stats = nullptr) {
    const auto count = static_cast<int32_t>(tokens.size());
    float* const out = log_probabilities.size() < tokens.size() ? nullptr : log_probabilities.data();  // refused
    return ocellus_session_score(get(), tokens.data(), count, out, stats);
  }

  /// See ocellus_session_score_choices.
  Status score_choices(Span<ocellus_choice> choices) {
    return ocellus_session_score_choices(get(), choices.data(), static_cast<int32_t>(choices.size()));
  }

  /// May be called on any thread while the session lives; see ocellus_session_cancel.
  void cancel() { ocellus_session_cancel(get()); }
  /// Sets the deadline of all following calls: ocellus_session_set_deadline().
  void set_deadline(Clock::time_point deadline) { ocellus_session_set_deadline(get(), deadline_ns(deadline)); }
  /// Following calls have no deadline.
  void clear_deadline() { set_deadline(kNoDeadline); }

  /// Calls ocellus_session_set_library().
  Status set_library(const Library& library, const char* owner) {
    return ocellus_session_set_library(get(), library.get(), owner);
  }
  /// False: pictures are read in their prompt; see ocellus_session_set_linking.
  Status set_linking(bool links) { return ocellus_session_set_linking(get(), links ? 1 : 0); }
  /// Images added from now on use no library. `owner` then only separates ocellus_limits.shared_images.
  Status clear_library(const char* owner = nullptr) { return ocellus_session_set_library(get(), nullptr, owner); }
  /// Calls ocellus_session_set_library_keep().
  Status set_library_keep(const ocellus_library_keep& keep) { return ocellus_session_set_library_keep(get(), &keep); }
  /// Calls ocellus_session_get_library_image().
  Result<ocellus_library_image> get_library_image() {
    ocellus_library_image image{};
    const ocellus_status status = ocellus_session_get_library_image(get(), &image);
    return {status, image};
  }
  /// Calls ocellus_session_add_library_image().
  Status add_library_image(const char* key) { return ocellus_session_add_library_image(get(), key); }
  /// Fills `hits`, the best first; the result is their number.
  Result<int32_t> search_library(Bytes picture, Span<ocellus_library_hit> hits) {
    int32_t count = 0;
    const auto capacity = static_cast<int32_t>(hits.size());
    const ocellus_status status =
        ocellus_session_search_library(get(), picture.data(), picture.size(), hits.data(), capacity, &count);
    return {status, count};
  }

 private:
  explicit Session(ocellus_session* session) : SessionMessages(session) {}
};

/// The result is the number of values; see ocellus_session_embed and ocellus_session_embed_image.
inline Result<int32_t> embed(Session& session, Span<float> values) {
  int32_t width = 0;
  const auto capacity = static_cast<int32_t>(values.size());
  const ocellus_status status = ocellus_session_embed(session.get(), values.data(), capacity, &width);
  return {status, width};
}
/// Calls ocellus_session_embed_image().
inline Result<int32_t> embed(Session& session, Bytes picture, Span<float> values) {
  int32_t width = 0;
  const auto capacity = static_cast<int32_t>(values.size());
  const ocellus_status status =
      ocellus_session_embed_image(session.get(), picture.data(), picture.size(), values.data(), capacity, &width);
  return {status, width};
}

/// `params` and `stats` have one element per session. set_on_text sets the parameters' callbacks.
inline Status batch_generate(Span<ocellus_session* const> sessions, Span<const ocellus_generate_params> params,
                             Span<ocellus_generate_stats> stats) {
  const size_t count = sessions.size();
  const bool fits = params.size() >= count && stats.size() >= count;  // null is refused
  return ocellus_batch_generate(sessions.data(), fits ? params.data() : nullptr, stats.data(),
                                static_cast<int32_t>(count));
}

}  // namespace cpp
}  // namespace ocellus
