// Builds without SQLite: the image library has no catalogue, and every call fails when it asks for it.
#include "runtime/library/library_catalogue.h"

namespace ocellus {
namespace {

Status absent() {
  return OCELLUS_FAIL(Code::kUnsupported, "this build has no image library: it was built without SQLite");
}

}  // namespace

struct Catalogue::Parts {};

Catalogue::Catalogue() = default;
Catalogue::~Catalogue() = default;
Status Catalogue::open(const char*, bool*) { return absent(); }
Status Catalogue::open_in_memory() { return absent(); }
void Catalogue::close() {}
Status Catalogue::require_open() const { return absent(); }
bool Catalogue::is_gone() const { return false; }
bool Catalogue::is_damaged() const { return false; }
Status Catalogue::begin() { return absent(); }
Status Catalogue::commit() { return absent(); }
void Catalogue::roll_back() {}
Status Catalogue::see_time(int64_t*) { return absent(); }
Status Catalogue::find_owner(std::string_view, OwnerRecord*, bool*) { return absent(); }
Status Catalogue::find_owner(int64_t, OwnerRecord*, bool*) { return absent(); }
Status Catalogue::next_owner(int64_t, OwnerRecord*, bool*) { return absent(); }
Status Catalogue::save_owner(OwnerRecord*) { return absent(); }
Status Catalogue::find_entry(const LibraryKey&, CatalogueRow*, bool*) { return absent(); }
Status Catalogue::find_row(int64_t, CatalogueRow*, bool*) { return absent(); }
Status Catalogue::next_entry(int64_t, int64_t, CatalogueRow*, bool*) { return absent(); }
Status Catalogue::save_entry(int64_t, const EntryHeader&, int64_t) { return absent(); }
Status Catalogue::drop_entry(const LibraryKey&) { return absent(); }
void Catalogue::touch_entry(const LibraryKey&, int64_t) {}
Status Catalogue::sum_entries(int64_t, CatalogueSums*) { return absent(); }
Status Catalogue::find_expired(int64_t, int64_t, CatalogueRow*, bool*) { return absent(); }
Status Catalogue::find_oldest(int64_t, const LibraryKey&, CatalogueRow*, bool*) { return absent(); }
Status Catalogue::last_change(int64_t*) { return absent(); }
Status Catalogue::list_changes(int64_t, Buffer<int64_t>*, bool*) { return absent(); }
Status Catalogue::search_text(std::span<const int64_t>, std::string_view, int64_t, int32_t, Buffer<CatalogueMatch>*) {
  return absent();
}
Status Catalogue::visit_vectors(int64_t, VisitVector, void*) { return absent(); }

}  // namespace ocellus
