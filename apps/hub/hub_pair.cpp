#include "apps/hub/hub_pair.h"

#include <filesystem>
#include <system_error>

#include "apps/base/failure.h"
#include "apps/base/terminal.h"

namespace ocellus::app {

std::optional<CachedPair> find_cached_pair(const HubCache& cache, const std::string& quant, bool text_only) {
  const std::string main = cache.main_commit();
  for (const std::string& commit : cache.commits()) {
    const PairChoice choice = choose_pair(cache.files(commit), quant);
    if (!choice.model.empty() && (text_only || !choice.mmproj.empty()))
      return CachedPair{.commit = commit, .choice = choice, .is_main = commit == main};
  }
  return std::nullopt;
}

HubPair describe_pair(const HubCache& cache, const std::string& repository, const CachedPair& cached) {
  HubPair pair;
  pair.repository = repository;
  pair.commit = cached.commit;
  std::error_code ignored;
  for (const std::string& file : cached.choice.files())
    pair.bytes += static_cast<int64_t>(std::filesystem::file_size(cache.snapshot_path(cached.commit, file), ignored));
  pair.model = cache.snapshot_path(cached.commit, cached.choice.model[0]);
  if (!cached.choice.mmproj.empty()) pair.mmproj = cache.snapshot_path(cached.commit, cached.choice.mmproj);
  return pair;
}

HubPair find_pair(const HubName& name, const HubOptions& options) {
  const HubSettings settings = read_hub_settings();
  const HubCache cache(settings.cache, name.repository);
  const bool is_offline = options.offline || settings.offline;
  std::optional<CachedPair> cached = find_cached_pair(cache, name.quant, /*text_only=*/false);
  if (!cached && !is_offline) return pull_pair(name, options);
  if (!cached) cached = find_cached_pair(cache, name.quant, /*text_only=*/true);
  if (!cached)
    throw Failure(kExitRuntime, name.text() + " is not in the cache at " + settings.cache +
                                    ", and nothing may be fetched (--offline or HF_HUB_OFFLINE).");
  if (!cached->is_main && !options.quiet)
    print_note("Note: " + name.text() + " is complete in the cache at commit " + cached->commit.substr(0, 12) +
               ", not at the newest that is known; `ocellus pull " + name.text() + "` brings that.");
  if (cached->choice.mmproj.empty() && !options.quiet)
    print_note("Note: the cache has no vision part of " + name.text() + ": it reads text only.");
  return describe_pair(cache, name.repository, *cached);
}

}  // namespace ocellus::app
