// A model, an engine and a session, as a C program makes them.
#pragma once

#include <doctest/doctest.h>

#include "runtime/ocellus.h"
#include "tests/support/goldens.h"

namespace ocellus::test {

struct CHandles {
  CHandles(const ModelPair& pair, const ocellus_limits& limits) {
    REQUIRE(ocellus_model_open(pair.model.c_str(), pair.mmproj.c_str(), &model) == OCELLUS_OK);
    ocellus_engine_config config;
    ocellus_engine_config_init(&config);
    config.limits = limits;
    REQUIRE(ocellus_engine_create(model, &config, &engine) == OCELLUS_OK);
    REQUIRE(ocellus_session_open(engine, &session) == OCELLUS_OK);
  }
  ~CHandles() {
    ocellus_session_close(session);
    ocellus_engine_destroy(engine);
    ocellus_model_close(model);
  }
  CHandles(const CHandles&) = delete;
  CHandles& operator=(const CHandles&) = delete;

  ocellus_model* model = nullptr;
  ocellus_engine* engine = nullptr;
  ocellus_session* session = nullptr;
};

}  // namespace ocellus::test
