// Functions of a library that is loaded when something needs it: who pulls no model pays nothing for it.
#pragma once

#include <dlfcn.h>

#include <initializer_list>

namespace ocellus::app {

class LoadedLibrary {
 public:
  // Loads the first of these that is there, for as long as the program runs.
  LoadedLibrary(std::initializer_list<const char*> names) {
    for (const char* const name : names)
      if ((handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != nullptr) return;
  }
  bool is_loaded() const { return handle_ != nullptr; }
  // Returns false if the library has no such function.
  template <class Function>
  bool find(const char* name, Function* out) const {
    *out = handle_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle_, name));
    return *out != nullptr;
  }

 private:
  void* handle_ = nullptr;
};

}  // namespace ocellus::app
